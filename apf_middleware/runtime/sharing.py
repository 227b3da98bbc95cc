"""From a configuration to the sharing of a server's seats: which way, among which levels, within which limits."""

from collections.abc import Mapping

from apf_middleware.config import Configuration
from apf_middleware.config.derive import derive_hierarchy, derive_settings
from apf_middleware.fairqueuing import DISCIPLINES, Adjusting, Lending, LevelLimits, Sharing
from apf_middleware.fairqueuing.sharing.base import Wanted

__all__ = ["share_seats", "wanted_levels"]


def share_seats(configuration: Configuration, limits: Mapping[str, LevelLimits], now: int) -> Sharing:
    """The levels and how they share the seats, as the configuration wants it."""
    server = configuration.server
    share = Adjusting if server.borrowing == "periodic" else Lending
    return share(
        server.seats,
        wanted_levels(configuration, limits),
        discipline=DISCIPLINES[server.discipline],
        strict_upstream=server.strict_upstream,
        hierarchy=derive_hierarchy(configuration),
        now=now,
    )


def wanted_levels(configuration: Configuration, limits: Mapping[str, LevelLimits]) -> Wanted:
    """The levels as whoever shares the seats wants to hear of them."""
    working = configuration.working_levels
    return {name: (derive_settings(level, limits[name]), limits[name]) for name, level in working.items()}
