"""What a flow had before doesn't cost it its fair share later: histories, arrivals, pauses, changed durations.

The control is Kubernetes' behaviour, which `strict_upstream` keeps: there a flow starves for having used idle seats.
"""

from collections.abc import Sequence

import pytest

from apf_middleware.fairqueuing import DISCIPLINES, QueueSetSettings
from apf_middleware.testing import Caller, Observation, observe

SECOND = 10**9
MS = 10**6
SETTINGS = QueueSetSettings(4, 1, 1, 1000, exact=64)


def flow(connections: int, duration_ns: int, *phases: tuple[int, int]) -> Caller:
    """Return the times in seconds."""
    return Caller(connections, (duration_ns,), [(begin * SECOND, end * SECOND) for begin, end in phases])


def history(seconds: int, duration_ns: int, afterwards: int = 15) -> Sequence[Caller]:
    """Eight connections beside one, for so long, and then seven of a third flow."""
    end = seconds + afterwards
    pair = [flow(connections, duration_ns, (0, end)) for connections in (8, 1)]
    return (*pair, flow(7, duration_ns, (seconds, end)))


def assert_fair(seen: Observation) -> None:
    shortfall, drought = seen.shortfall.worst, seen.shortfall.worst_drought

    assert shortfall is not None
    assert shortfall.ratio <= 1, f"more than C + 1 requests behind: {shortfall}"
    assert drought is not None
    assert drought.ratio <= 1, f"too long without its share: {drought}"


@pytest.mark.parametrize(("seconds", "duration_ns"), [(10, 50 * MS), (600, 400 * MS)])
@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_long_history_costs_a_flow_nothing(discipline: str, seconds: int, duration_ns: int) -> None:
    callers = history(seconds, duration_ns)
    windows = [(seconds + 3 * window) * SECOND for window in range(6)]

    seen = observe(SETTINGS, callers, discipline=DISCIPLINES[discipline], windows=windows)

    least = 3 * 1.5 - 5 * duration_ns / SECOND  # seat-seconds in three seconds: the share less the bound
    assert min(row[0] * 3 for row in seen.seats) >= least
    assert_fair(seen)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_each_of_many_elephants_keeps_its_share_when_another_one_arrives(discipline: str) -> None:
    elephants = [flow(8, 50 * MS, (6 * place, 42)) for place in range(6)]

    seen = observe(SETTINGS, (*elephants, flow(1, 50 * MS, (0, 42))), discipline=DISCIPLINES[discipline])

    assert_fair(seen)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_pauses_cost_nothing_and_gain_nothing(discipline: str) -> None:
    phases = [(begin, begin + 6) for begin in range(0, 44, 11)]
    callers = (flow(8, 50 * MS, (0, 44)), flow(8, 50 * MS, *phases), flow(1, 50 * MS, (0, 44)))

    assert_fair(observe(SETTINGS, callers, discipline=DISCIPLINES[discipline]))


@pytest.mark.parametrize("discipline", DISCIPLINES)
@pytest.mark.parametrize("is_exchanged", [False, True], ids=["same", "exchanged"])
def test_long_and_short_requests_after_silence(discipline: str, *, is_exchanged: bool) -> None:
    """The flows keep their lengths or exchange them while they are silent."""
    phases = [(0, 20 * SECOND), (60 * SECOND, 90 * SECOND)]
    lengths = (3 * SECOND, 30 * MS)
    pair = [
        Caller(8, (length,), phases, later_ns=(other,) if is_exchanged else (), later_from_ns=60 * SECOND)
        for length, other in (lengths, lengths[::-1])
    ]

    seen = observe(SETTINGS, (*pair, flow(8, 100 * MS, (0, 90))), discipline=DISCIPLINES[discipline])

    assert_fair(seen)


def test_with_strict_upstream_a_flow_starves_after_it_used_idle_seats() -> None:
    droughts = []
    for seconds in (10, 30):
        seen = observe(SETTINGS, history(seconds, 200 * MS, afterwards=30), strict_upstream=True)
        assert seen.shortfall.worst is not None
        assert seen.shortfall.worst.flow == 0
        assert seen.shortfall.worst.ratio > 5
        droughts.append(seen.shortfall.longest_drought[0].seconds)

    assert droughts[0] > 3
    assert droughts[1] > 2 * droughts[0]
