"""Fairness scenarios beside Kubernetes' own: what its scenarios leave out, as data.

What is expected are the max-min fair seats, worked out by hand where clients' demands vary in time. A scenario of two
windows is judged by the second one: in the first it settles.
"""

from collections.abc import Iterator, Sequence

from apf_middleware.fairqueuing import QueueSetSettings, Work
from apf_middleware.testing.scenario import Client, FairnessScenario
from tests.support.kubernetes_scenarios import ELEPHANT, MOUSE, SECOND, Expectation, FairnessCase

__all__ = ["MORE_SCENARIOS"]

CAT = 3003003003


def _case(name: str, scenario: FairnessScenario, *averages: float) -> FairnessCase:
    """One whose margin is 2 % in its last window, and none before."""
    settling = [Expectation(float("inf"), averages=averages)] * (scenario.windows - 1)
    return FairnessCase(name, scenario, (*settling, Expectation(0.02, averages=averages)))


def _in_time() -> Iterator[FairnessCase]:
    """Demands that vary."""
    settings = QueueSetSettings(3, 9, 1, 20)
    elephant = Client(ELEPHANT, 8, 60, SECOND)
    saving = Client(MOUSE, 2, 40, SECOND, -1, late_half=True)
    yield _case(
        "windup, saved credit", FairnessScenario(settings, (elephant, saving), 40 * SECOND, windows=2), 1.5, 1.5
    )
    bursts = Client(MOUSE, 8, 10, SECOND, 15 * SECOND)  # eight at once, then silence
    yield _case(
        "bursts after silence", FairnessScenario(settings, (elephant, bursts), 64 * SECOND, windows=2), 2.5, 0.5
    )


def _in_length() -> Iterator[FairnessCase]:
    quick = Client(ELEPHANT, 10, 600, SECOND // 10)
    other = Client(CAT, 10, 500, 13 * SECOND // 100)
    modest = Client(MOUSE, 1, 40, SECOND)
    settings = QueueSetSettings(6, 9, 1, 20)
    scenario = FairnessScenario(settings, (quick, other, modest), 20 * SECOND, windows=2)
    yield _case("one that can't use its share", scenario, 2.5, 2.5, 1)
    mixed = (Client(ELEPHANT, 8, 20, 5 * SECOND), Client(MOUSE, 8, 250, SECOND // 10))
    scenario = FairnessScenario(QueueSetSettings(4, 9, 1, 20), mixed, 80 * SECOND, windows=2)
    yield _case("long and short", scenario, 2, 2)


def _in_width() -> Iterator[FairnessCase]:
    clients = (
        Client(ELEPHANT, 4, 60, SECOND, work=Work(10)),
        Client(MOUSE, 30, 100, 7 * SECOND // 10),
        Client(CAT, 30, 100, 13 * SECOND // 10),
    )
    yield _case(
        "10 of 12 seats at once", FairnessScenario(QueueSetSettings(12, 9, 1, 40), clients, 120 * SECOND), 4, 4, 4
    )


def _in_number() -> Iterator[FairnessCase]:
    """1,000 flows before 64 queues, ten of them with thirty times as many requests as the others."""
    flows = [place * 0x9E3779B97F4A7C15 % 2**64 for place in range(1, 1001)]
    elephants = [Client(flow, 30, 16, SECOND // 10) for flow in flows[:10]]
    mice = [Client(flow, 1, 16, SECOND // 10) for flow in flows[10:]]
    scenario = FairnessScenario(QueueSetSettings(100, 64, 6, 1000), (*mice, *elephants), 8 * SECOND, windows=2)
    loose = Expectation(0.25, averages=(0.1,) * 1000)  # one call more or less in a window is a quarter
    yield FairnessCase("1,000 flows", scenario, (Expectation(float("inf"), averages=(0.1,) * 1000), loose))


MORE_SCENARIOS: Sequence[FairnessCase] = (*_in_time(), *_in_length(), *_in_width(), *_in_number())
"""All of them."""
