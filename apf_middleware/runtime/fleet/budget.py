"""The budget of a fleet, as its configuration states it."""

import hashlib
from dataclasses import replace

from apf_middleware.config import Configuration
from apf_middleware.config.build import derive_hierarchy, derive_limits
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget, SeatRange
from apf_middleware.fleet.membership import UNKNOWN_CONFIGURATION, MemberConfiguration
from apf_middleware.runtime.controller import Controller

__all__ = ["StatedBudget", "derive_budget"]


def derive_budget(configuration: Configuration, seats: int | None = None) -> Budget:
    """Return the seats of the fleet, and the claims of its limited levels and of their parents.

    Without ``seats``, they are those that the fleet starts with.
    """
    server = configuration.server
    seats = server.total if seats is None else seats
    hierarchy = derive_hierarchy(configuration, seats)
    claims = {}
    for name, limits in {**derive_limits(configuration, seats), **hierarchy.parents}.items():
        level = configuration.levels[name]
        if not level.exempt:
            # A number of seats that adapts may exceed a configured max at any time.
            has_max = level.max_seats is not None or limits.max < seats
            weight = hierarchy.weight(name, limits)
            claims[name] = SeatDemand(weight, 0, limits.min, limits.max if has_max else None, level.parent)
    priorities = {name: level.priority for name, level in configuration.levels.items() if name in claims}
    bounds = server.seat_bounds
    floor = 0 if server.fleet is None else server.fleet.fallback.floor(server.least_total)
    return Budget(seats, claims, priorities, None if bounds is None else SeatRange(bounds.min, bounds.max), floor)


class StatedBudget:
    """What the configuration of ``controller`` says about seats, computed once for each one and each total."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._configuration: Configuration | None = None
        self._found = UNKNOWN_CONFIGURATION
        self()  # the configuration is in force from now on

    def __call__(self) -> MemberConfiguration:
        """Return the configuration in force, as reports tell it."""
        controller, configuration = self._controller, self._controller.configuration
        if configuration is not self._configuration:
            self._configuration = configuration
            stated = derive_budget(configuration)
            digest = hashlib.sha256(repr(stated).encode()).hexdigest()[:16]
            if digest != self._found.digest:  # otherwise the change has nothing to do with seats
                self._found = MemberConfiguration(digest, controller.now(), stated)
        known = self._found.budget
        if known is not None and known.bounds is not None and known.seats != controller.seats:
            self._found = replace(self._found, budget=derive_budget(configuration, controller.seats))
        return self._found

    def budget(self) -> Budget:
        """Return the budget with the present total of seats."""
        budget = self().budget
        assert budget is not None, "the configuration says something about seats"
        return budget

    def __repr__(self) -> str:
        return f"<StatedBudget: {self._found}>"
