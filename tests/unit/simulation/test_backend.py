"""The simulated backend."""

import pytest

from apf_middleware.config import load_text
from apf_middleware.config.scenario import Backend, Scenario
from apf_middleware.simulation.backend import SimulatedBackend, with_backend_of


def test_it_is_slower_beyond_its_places() -> None:
    backend = SimulatedBackend(Backend(places=2, exponent=2.0), seats=10)

    assert [backend.begin(100, 1) for _ in range(4)] == [100, 100, 225, 400]
    for _ in range(3):
        backend.end(1)
    assert backend.load == 1
    assert backend.begin(100, 2) == 225, "three seats are in use"


def test_without_places_it_has_the_seats_of_the_server() -> None:
    assert SimulatedBackend(Backend(), seats=7).places == 7


@pytest.mark.parametrize(
    ("seats", "given", "places"),
    [
        ("7", None, 7),
        ("7", 3, 3),
        ("{adaptive: {min: 4, max: 400}}", None, 4),
        ("{adaptive: {min: 4, max: 400, start: 9}}", None, 9),
    ],
)
def test_other_configurations_can_have_the_same_backend(seats: str, given: int | None, places: int) -> None:
    own = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}}}\n")
    scenario = Scenario(backend=Backend(places=given, exponent=2.0), seed=7)

    found = with_backend_of(own, scenario)

    assert found == Scenario(backend=Backend(places=places, exponent=2.0), seed=7)
