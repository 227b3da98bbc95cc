"""The budget of a fleet, as its configuration states it."""

from apf_middleware.config import Configuration
from apf_middleware.config.build import derive_hierarchy, derive_limits
from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget

__all__ = ["derive_budget"]


def derive_budget(configuration: Configuration) -> Budget:
    """Return the seats of the fleet, and the claims of its limited levels and of their parents."""
    seats, hierarchy = configuration.server.total, derive_hierarchy(configuration)
    claims = {}
    for name, limits in {**derive_limits(configuration), **hierarchy.parents}.items():
        level = configuration.levels[name]
        if not level.exempt:
            claims[name] = _claim(seats, hierarchy.weight(name, limits), limits, level.parent)
    priorities = {name: level.priority for name, level in configuration.levels.items() if name in claims}
    return Budget(seats, claims, priorities)


def _claim(seats: int, weight: int, limits: LevelLimits, parent: str | None) -> SeatDemand:
    most = limits.max if limits.max < seats else None
    return SeatDemand(weight, 0, limits.min, most, parent)
