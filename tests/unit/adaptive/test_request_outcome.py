"""The outcomes that a controller tells apart."""

import pytest

from apf_middleware.adaptive import RequestOutcome, outcome_of


def test_outcomes_are_told_apart() -> None:
    assert [one.name for one in RequestOutcome] == ["SUCCESS", "ERROR", "TIMED_OUT", "REFUSED"]
    assert len({one.value for one in RequestOutcome}) == 4


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, RequestOutcome.SUCCESS),
        (404, RequestOutcome.SUCCESS),
        (429, RequestOutcome.SUCCESS),
        (500, RequestOutcome.ERROR),
        (502, RequestOutcome.ERROR),
        (503, RequestOutcome.REFUSED),
        (504, RequestOutcome.TIMED_OUT),
        (599, RequestOutcome.ERROR),
    ],
)
def test_the_status_tells_the_outcome(status: int, outcome: RequestOutcome) -> None:
    assert outcome_of(status) is outcome
