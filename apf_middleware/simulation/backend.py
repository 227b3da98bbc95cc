"""The resource behind simulated servers, such as a database: the more it has to do, the slower it is."""

from dataclasses import replace

from apf_middleware.config import Configuration
from apf_middleware.config.scenario import Backend, Scenario

__all__ = ["SimulatedBackend", "with_backend_of"]


def with_backend_of(configuration: Configuration, scenario: Scenario) -> Scenario:
    """Return the scenario with the backend that it has under ``configuration``, also for other configurations.

    Otherwise a comparison of two numbers of seats would be one of two backends.
    """
    places = scenario.backend.places or configuration.server.total
    return replace(scenario, backend=replace(scenario.backend, places=places))


class SimulatedBackend:
    """A backend with ``places`` (see `Backend`); ``load`` are the seats of the requests that it serves now."""

    __slots__ = ("exponent", "load", "places")

    def __init__(self, settings: Backend, seats: int) -> None:
        self.places: int = seats if settings.places is None else settings.places
        self.exponent: float = settings.exponent
        self.load: int = 0

    def begin(self, service_ns: int, weight: int) -> int:
        """Begin a request of ``weight`` seats, and return how long it takes.

        The slowdown is fixed at the start: later arrivals slow down only themselves.
        """
        self.load = load = self.load + weight
        if load > self.places:
            return int(service_ns * (load / self.places) ** self.exponent)
        return service_ns

    def end(self, weight: int) -> None:
        """End a request of ``weight`` seats."""
        self.load -= weight

    def __repr__(self) -> str:
        return f"<SimulatedBackend: load of {self.load} on {self.places} places>"
