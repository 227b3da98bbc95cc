"""This process in its fleet, whatever store carries the messages: as a member, and at times as the allocator."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fleet.allocator import Allocator
from apf_middleware.fleet.budget import Budget
from apf_middleware.metrics.reading import AdaptiveReading, FleetReading
from apf_middleware.runtime.fleet.member import FleetMember
from apf_middleware.runtime.fleet.timing import TURN_NS, FleetTiming
from apf_middleware.runtime.log import log_event

__all__ = ["FleetParts", "Participant"]

_SECOND: Final = 10**9
_QUIET_NS: Final = 10 * _SECOND  # between two records of what may happen many times a second


class FleetParts(NamedTuple):
    """A member's part of the seats of its fleet, and of those maxes of levels that are divided, each with the whole."""

    seats: tuple[int, int]
    maxes: Mapping[str, tuple[int, int]]


class Participant:
    """The part of this process in the fleet ``name``.

    ``join`` is called with the name of the member, and returns it; ``leave`` is called at the end. ``budget`` returns
    the budget of the configuration in force, for the time in which this process allocates. The fleet has at most
    ``most_members``, if that isn't 0.
    """

    def __init__(
        self,
        name: str,
        timing: FleetTiming,
        *,
        join: Callable[[str], FleetMember],
        leave: Callable[[], None],
        budget: Callable[[], Budget],
        now: Callable[[], int],
        most_members: int = 0,
    ) -> None:
        self.name: str = name
        self.timing: FleetTiming = timing
        self.now: Callable[[], int] = now
        self.member: FleetMember | None = None
        self.allocator: Allocator | None = None
        self._join = join
        self._leave = leave
        self._budget = budget
        self._most_members = most_members
        self._is_crowded = False
        self._announced: Allocator | None = None  # the one whose epoch has been logged
        self._absence = "the server sends no lifespan messages"
        self._epochs = self._past_overshoot = 0
        self._quiet_until: dict[str, int] = {}  # by event

    # As a member

    def begin(self) -> None:
        """Note that the server has begun to take part."""
        self._absence = ""

    def join(self, member: str, wake: Callable[[], None], send_now: Callable[[], bool] | None = None) -> FleetMember:
        """Become the member of this name, which calls ``wake`` and ``send_now`` as `FleetMember` describes."""
        self.member = joined = self._join(member)
        joined.wake = wake
        if send_now is not None:
            joined.send_now = send_now
        self.note_joined()
        return joined

    def note_joined(self) -> None:
        """Log that this process takes part."""
        if self.member is not None:
            log_event(logging.INFO, "apf.fleet-joined", fleet=self.name, member=self.member.membership.member)

    def leave(self) -> bool:
        """Take part no longer; return whether all seats are given up, because no request uses any."""
        member, self.member = self.member, None
        self._absence = "the lifespan of the app has ended, or its part in the fleet has failed"
        self._leave()
        return member is None or member.give_up()

    def warn_if_absent(self) -> None:
        """Log once that requests arrive although this process doesn't take part, and why."""
        absence, self._absence = self._absence, ""
        if absence:
            self.fail(f"{absence}, so this process gets no seats of its fleet")

    def fail(self, error: object) -> None:
        """Log that this process can't take part."""
        log_event(logging.ERROR, "apf.fleet-failed", fleet=self.name, error=str(error))

    def refuse(self, error: InvalidValueError, member: str = "") -> None:
        """Log that a message can't be read, and the ``member`` that has sent it if that is known."""
        self._warn("apf.fleet-message-refused", error, {"member": member} if member else {})

    def refuse_connections(self, error: OSError) -> None:
        """Log that no connection of a member can be accepted."""
        self._warn("apf.fleet-refuses", error, {})

    def _warn(self, event: str, error: Exception, about: Mapping[str, str]) -> None:
        """Log an ``event`` at most once in ten seconds."""
        now = self.now()
        if now >= self._quiet_until.get(event, now):
            self._quiet_until[event] = now + _QUIET_NS
            log_event(logging.WARNING, event, fleet=self.name, **about, error=str(error))

    # As the allocator

    def allocate(self, epoch: int, expected: Collection[str] | None) -> Allocator:
        """Return the allocator of this ``epoch``; ``expected`` may have grants of an earlier one (see `Allocator`)."""
        timing = self.timing
        self._epochs += 1
        self.allocator = Allocator(
            self._budget(),
            epoch=epoch,
            now=self.now(),
            lease_ns=timing.lease_ns,
            margin_ns=timing.margin_ns,
            turn_ns=TURN_NS,
            most_members=self._most_members,
            expected=expected,
            member="" if self.member is None else self.member.membership.member,
        )
        return self.allocator

    def note_division(self, allocator: Allocator) -> None:
        """Log an epoch when its first grants can be sent, and if there are more members than the configuration says."""
        if self._announced is not allocator:
            self._announced = allocator
            learning_ns = allocator.learning_ns(self.now())
            more = {"learns_for_s": round(learning_ns / _SECOND, 1)} if learning_ns else {}
            log_event(logging.INFO, "apf.fleet-allocates", fleet=self.name, epoch=allocator.epoch, **more)
        members = len(allocator.accounts)
        is_crowded = members > self._most_members > 0
        if is_crowded and not self._is_crowded:
            most = self._most_members
            log_event(logging.WARNING, "apf.fleet-crowded", fleet=self.name, members=members, fallback_members=most)
        self._is_crowded = is_crowded

    def stop_allocating(self, allocator: Allocator) -> None:
        """Note that the epoch of ``allocator`` has ended."""
        self._past_overshoot += allocator.overshoot
        if self.allocator is allocator:
            self.allocator = None
        if self._announced is allocator:
            self._announced = None
            log_event(logging.INFO, "apf.fleet-yields", fleet=self.name, epoch=allocator.epoch)

    # What metrics read

    def parts(self) -> FleetParts | None:
        """Return what this process may use at this moment; None before and after it takes part."""
        member, now = self.member, self.now()
        if member is None:
            return None
        membership, budget = member.membership, self._budget()
        whole = budget.maxes
        maxes = {name: (part, whole[name]) for name, part in membership.maxes(now).items() if whole.get(name)}
        return FleetParts((membership.seats(now), budget.seats), maxes)

    def reading(self) -> FleetReading | None:
        """Return the numbers for metrics; None before and after this process takes part."""
        member, now = self.member, self.now()
        if member is None:
            return None
        membership = member.membership
        answered_at, grant = membership.answered_at, membership.grant
        return FleetReading(
            seats=self._budget().seats,
            granted=membership.seats(now),
            in_use=member.in_use,
            members=0 if grant is None else grant.members,
            exchanges=member.exchanges,
            age_ns=None if answered_at is None else now - answered_at,
            fallback_ns=member.fallback_ns,
            is_allocator=self.allocator is not None,
            epochs=self._epochs,
            overshoot=self._past_overshoot + (0 if self.allocator is None else self.allocator.overshoot),
            is_outdated=member.is_outdated,
            adaptive=self._read_total(),
        )

    def _read_total(self) -> AdaptiveReading | None:
        total = None if self.allocator is None else self.allocator.total
        if total is None:
            return None
        bounds, found = total.bounds, total.controller
        return AdaptiveReading(
            bounds.least, bounds.most, found.reason, dict(total.decisions), found.elasticity, found.window.duration_ns
        )

    def __repr__(self) -> str:
        return f"<Participant in {self.name!r}: {self.member!r}{', allocator' if self.allocator is not None else ''}>"
