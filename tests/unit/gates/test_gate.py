"""Counters and rejections of gates, and what their answers and terms may be."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.gates import Gates, Park, Probe, Reject
from tests.support.gate_world import GateWorld, Switch


def test_rejections_can_say_their_own_status_and_time() -> None:
    world = GateWorld(Switch(Reject(status=402, retry_after=7)).gate())
    world.arrive("a", "switch")
    refusal = world.refusals["a"]
    assert refusal is not None
    assert (refusal.gate, refusal.status, refusal.retry_after) == ("switch", 402, 7)


@pytest.mark.parametrize(
    ("answer", "given", "message"),
    [
        (Park, {"retry_at": 1, "retry_in": 2}, r"^retry_in is 2, but it must be None if retry_at is given"),
        (Park, {"retry_at": nan}, r"^retry_at is nan, but it must be a number of seconds"),
        (Park, {"retry_at": "7"}, r"^retry_at is '7', but it must be a number of seconds"),
        (Park, {"retry_in": inf}, r"^retry_in is inf, but it must be a number of seconds"),
        (Park, {"retry_in": True}, r"^retry_in is True, but it must be a number of seconds"),
        (Reject, {"status": 399}, r"^status is 399, but it must be at least 400"),
        (Reject, {"status": 600}, r"^status is 600, but it must be at most 599"),
        (Reject, {"retry_after": -1}, r"^retry_after is -1, but it must be from 0 to less than 1e9 seconds"),
        (Reject, {"retry_after": nan}, r"^retry_after is nan, but it must be from 0 to less than 1e9 seconds"),
        (Reject, {"retry_after": 10**9}, r"^retry_after is 1000000000, but it must be from 0 to less than 1e9 seconds"),
        (Probe, {"most": 0}, r"^most is 0, but it must be at least 1"),
    ],
)
def test_answers_with_impossible_values_are_refused(
    answer: Callable[..., object], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidValueError, match=message):
        answer(**given)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"status": 200}, r"^status is 200, but it must be at least 400"),
        ({"status": 600}, r"^status is 600, but it must be at most 599"),
        ({"on_error": "never"}, r"^on_error is 'never', but it must be admit, reject or backoff"),
        ({"release": "end"}, r"^release is 'end', but it must be response, headers or seats"),
        ({"max_parked": 0}, r"^max_parked is 0, but it must be at least 1"),
        ({"most_bypasses": 0}, r"^most_bypasses is 0, but it must be at least 1"),
        ({"flush": 1e-10}, r"^flush_ns is 0, but it must be at least 1"),
        ({"poll": True}, r"^poll is True, but it must be more than 0 seconds, and less than 1e6"),
        ({"poll": "1"}, r"^poll is '1', but it must be more than 0 seconds, and less than 1e6"),
        ({"poll": 1e6}, r"^poll is 1000000\.0, but it must be more than 0 seconds, and less than 1e6"),
    ],
)
def test_impossible_terms_are_refused(terms: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        Gates().capacity("db", limit=1, **terms)
