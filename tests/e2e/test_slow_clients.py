"""A hundred slow connections of one network on a real server: clients of other networks are served beside them."""

import json

import pytest

from benchmarks.slow_clients import ATTACKS, Outcome, attack, main

pytestmark = pytest.mark.timeout(90)


@pytest.mark.parametrize("kind", [kind for kind in ATTACKS if kind != "reader"])
def test_slow_senders_keep_no_one_from_the_seats(kind: str) -> None:
    outcome = attack(kind, 2, holds_seats=False)

    assert outcome.starved == 0, outcome
    assert outcome.served > 50, outcome
    assert outcome.refused == 0, outcome


def test_slow_readers_keep_no_one_from_the_seats() -> None:
    outcome = attack("reader", 6, holds_seats=False)

    assert outcome.starved == 0, outcome
    assert outcome.served > 50, outcome


def test_slow_senders_that_hold_seats_keep_the_others_from_them() -> None:
    """Otherwise the tests above would show nothing."""
    outcome = attack("trickle", 2, holds_seats=True)

    assert (outcome.served, outcome.starved) == (0, 10)


def test_the_command_tells_of_each_attack_with_and_without_seats_held(capsys: pytest.CaptureFixture[str]) -> None:
    runs: list[Outcome] = []

    def run(kind: str, seconds: float, *, holds_seats: bool) -> Outcome:
        runs.append(Outcome(kind, holds_seats, seconds, served=7))
        return runs[-1]

    main(["--json", "--seconds", "3", "trickle"], run)
    assert [(one["attack"], one["holds_seats"], one["served"]) for one in json.loads(capsys.readouterr().out)] == [
        ("trickle", True, 7),
        ("trickle", False, 7),
    ]
    main([], run)
    assert [one.attack for one in runs[2::2]] == list(ATTACKS)
    assert "starved of 10" in capsys.readouterr().out
