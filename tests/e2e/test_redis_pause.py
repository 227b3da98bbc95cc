"""A gate in Redis recovers when Redis has paused, and no place is lost."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.redis_pause import OnError, Plan, Round, endure, main
from tests.support.prerequisites import require_redis

POLICIES: tuple[OnError, ...] = ("admit", "reject", "backoff")


@pytest.fixture(scope="module")
def endured() -> dict[OnError, list[Round]]:
    """Return the rounds of each policy. All are run at once, each with its own server and Redis: they mostly wait."""
    require_redis()
    plans = [Plan(on_error=policy, before=0.5, pause=1.5, after=2.5) for policy in POLICIES]
    with ThreadPoolExecutor(len(plans)) as threads:
        return dict(zip(POLICIES, threads.map(endure, plans), strict=True))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("on_error", POLICIES)
def test_a_pause_and_many_disconnects_leave_no_permit_taken(
    on_error: OnError, endured: dict[OnError, list[Round]]
) -> None:
    pause, crowd = endured[on_error]

    assert (pause.leaked, crowd.leaked) == (0, 0)
    assert pause.served_after is not None
    assert pause.served_after > 1


def test_the_command_shows_a_row_for_each_round_of_each_policy(capsys: pytest.CaptureFixture[str]) -> None:
    def run(plan: Plan) -> list[Round]:
        return [Round("pause", plan.on_error, 10.0, 9.0, 0)] * plan.rounds

    main(["--json", "--rounds", "2"], run)

    rows = json.loads(capsys.readouterr().out)
    assert [row["on_error"] for row in rows] == ["admit", "admit", "reject", "reject", "backoff", "backoff"]
    assert rows[0] == {"kind": "pause", "on_error": "admit", "served_before": 10.0, "served_after": 9.0, "leaked": 0}
    main([], run)
    assert capsys.readouterr().out.startswith("kind")
