"""Snapshots of a fleet: its members, its levels and their flows."""

from apf_middleware.frozen import frozen
from apf_middleware.snapshots import Count, Number

__all__ = [
    "FleetFlowSnapshot",
    "FleetLevelSnapshot",
    "FleetMemberSnapshot",
]


@frozen
class FleetMemberSnapshot:
    """One member of a fleet, as the allocator knows it.

    ``seats`` are granted to it, and ``demand`` are those that it uses or waits for. Its last report came ``age``
    seconds ago. It ``is_outdated`` if the seats are divided by another configuration.
    """

    member: str
    is_allocator: bool
    seats: Count
    seats_in_use: Count
    demand: Count
    age: Number
    is_outdated: bool


@frozen
class FleetFlowSnapshot:
    """A flow of a fleet, and the seats that it uses and waits for at all members.

    The ``flow`` is None if the member that shows it doesn't know the name; members tell each other only the ``label``.
    """

    flow: str | None
    label: str
    demand: Count
    weight: Number


@frozen
class FleetLevelSnapshot:
    """One level of a whole fleet: ``demand`` are the seats in use and waited for, ``arrivals`` requests per second."""

    level: str
    seats_in_use: Count
    demand: Count
    arrivals: Count
    flows: tuple[FleetFlowSnapshot, ...]
