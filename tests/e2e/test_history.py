"""On a real server, a client that used seats nobody else wanted still gets its share when others come."""

import json

import pytest

from apf_middleware.fairqueuing import DISCIPLINES
from benchmarks.history import History, main, play

BEFORE_S, AFTER_S = 6, 6


def played_undisturbed(attempts: int = 5) -> History:
    """Return the first history in which the machine served the clients about equally fast all the time."""
    for _ in range(attempts):
        seen = play("equal-serial", BEFORE_S, AFTER_S)
        totals = [sum(window) for window in (*seen.before, *seen.after)]
        if 3 * min(totals) >= max(totals):
            return seen
    pytest.fail(f"the machine stalled in each of {attempts} attempts")


@pytest.mark.timeout(180)
def test_no_client_starves_for_its_history() -> None:
    seen = played_undisturbed()

    assert not seen.is_starving, seen
    assert seen.before[-1][0] > 2 * seen.before[-1][1], "the first client used what the other one left"
    assert seen.least > 0.5, seen


def test_the_command_reports_each_discipline(capsys: pytest.CaptureFixture[str]) -> None:
    def run(discipline: str, before: float, after: float) -> History:
        assert after == 30
        return History(discipline, before, [[300, 30, 0]] * 2, [[100, 50, 120], [60, 50, 140]])

    main(["--json", "--strict", "--before", "10", "20"], run)
    report = json.loads(capsys.readouterr().out)
    assert [(one["discipline"], one["seconds_before"]) for one in report] == [
        (discipline, before) for before in (10, 20) for discipline in (*DISCIPLINES, "equal-serial, strict")
    ]
    assert {(one["least"], one["is_starving"]) for one in report} == {(0.59, False)}
    main(["--discipline", "max-min-serial"], run)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-2:] for line in lines[1:]] == [["100", "60"], ["50", "50"], ["120", "140"]]


def test_a_window_without_a_response_is_starvation() -> None:
    assert History("equal-serial", 1, [], [[5, 1, 5], [0, 2, 9]]).is_starving
