"""The simulated backend."""

from apf_middleware.config.scenario import Backend
from apf_middleware.simulation.backend import SimulatedBackend


def test_it_is_slower_beyond_its_places() -> None:
    backend = SimulatedBackend(Backend(places=2, exponent=2.0), seats=10)

    assert [backend.begin(100, 1) for _ in range(4)] == [100, 100, 225, 400]
    for _ in range(3):
        backend.end(1)
    assert backend.load == 1
    assert backend.begin(100, 2) == 225, "three seats are in use"


def test_without_places_it_has_the_seats_of_the_server() -> None:
    assert SimulatedBackend(Backend(), seats=7).places == 7
