"""A hundred slow connections of one network on a real server: clients of other networks are served beside them."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.slow_clients import ATTACKS, Outcome, attack, main

pytestmark = pytest.mark.timeout(90)


SECONDS = {kind: 6 if kind == "reader" else 2 for kind in ATTACKS}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Return the outcome of each attack. Three are made at once, each on its own server: they mostly wait."""
    with ThreadPoolExecutor(3) as threads:
        made = threads.map(lambda kind: attack(kind, SECONDS[kind], holds_seats=False, least=6), reversed(ATTACKS))
        return {outcome.attack: outcome for outcome in made}


@pytest.mark.parametrize("kind", ATTACKS)
def test_slow_clients_block_no_seats(kind: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[kind]

    assert outcome.starved == 0, outcome
    assert outcome.served > 50, outcome
    assert kind == "reader" or outcome.refused == 0, outcome


def test_slow_senders_that_hold_seats_keep_the_others_from_them() -> None:
    """Otherwise the tests above would show nothing."""
    outcome = attack("trickle", 2, holds_seats=True)

    assert (outcome.served, outcome.starved) == (0, 10)


def test_the_command_reports_each_attack_with_and_without_seats_held(capsys: pytest.CaptureFixture[str]) -> None:
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
