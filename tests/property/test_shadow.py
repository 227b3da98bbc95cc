"""A shadow decides as a server would that really runs its configuration, with the same requests."""

from collections import Counter
from random import Random

import pytest

from apf_middleware.runtime.shadow.report import TrialFacts, report
from tests.support.examples import seeds
from tests.support.shadow_world import PlainServer, ShadowWorld, random_clients, random_config

REQUESTS = 300


@pytest.mark.parametrize("seed", seeds(30))
def test_a_shadow_of_the_same_configuration_decides_the_same(seed: int) -> None:
    random = Random(seed)
    configuration = random_config(random)
    world = ShadowWorld(configuration, configuration)
    world.run(random_clients(random, REQUESTS))

    real = {number: (run.outcome, run.wait) for number, run in world.real.runs.items()}
    assert world.shadow_runs() == real
    found = report(world.shadow, TrialFacts("same", classify_only=False))
    assert found.decided == found.agreeing == REQUESTS
    assert found.assumed == 0


@pytest.mark.parametrize("seed", seeds(80))
def test_a_shadow_decides_as_a_server_that_really_runs_its_configuration(seed: int) -> None:
    random = Random(seed)
    world = ShadowWorld(random_config(random), random_config(random))
    clients = random_clients(random, REQUESTS)
    world.run(clients)
    server = world.really(clients)

    assert world.shadow_runs() == {number: (run.outcome, run.wait) for number, run in server.runs.items()}
    assert tallies(world) == counters(server)
    world.shadow.controller.sharing.check()


def tallies(world: ShadowWorld) -> dict[str, object]:
    """Return the numbers of a shadow's report."""
    found = report(world.shadow, TrialFacts("other", classify_only=False))
    return {
        level.level: (
            level.at_once,
            level.waits.buckets,
            dict(level.rejected),
            level.peak,
        )
        for level in found.levels
    }


def counters(server: PlainServer) -> dict[str, object]:
    """Return the same numbers of a server that was really run."""
    found: dict[str, object] = {}
    for name, runtime in server.controller.levels.items():
        of_all = runtime.schema_counters.values()
        rejected = Counter({reason.value: n for one in of_all for reason, n in one.rejected.items() if n})
        waits = [sum(counts) for counts in zip(*(one.waits.counts for one in of_all), strict=True)] or [0] * 14
        seats = runtime.occupancy.times(server.events.now)[0]
        peak = max((number for number, lasted in seats.items() if lasted), default=0)
        found[name] = (sum(one.at_once for one in of_all), tuple(waits), dict(rejected), peak)
    return found
