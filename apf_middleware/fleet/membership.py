"""The member's side of its grants: which grant is in force, and how long.

A member counts a lease from the moment at which it *sent* the report that the grant answers, and the allocator from the
moment at which it received that report, which is later. So the lease ends for the member first, whatever the network
does, and the clocks of the two need not agree. Until it obeys another grant, a member only ever uses fewer seats.

Without a lease the member may use its *floor*, the same number of seats for each member. The allocator sets it aside
for as many members as the fleet may have, so a member needs no leave to use it, not even before its first report.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from apf_middleware.copying import Value
from apf_middleware.exceptions import require_integer
from apf_middleware.fairqueuing.sharing.grant import LevelGrant, SeatGrant
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget
from apf_middleware.fleet.messages import Grant, LevelUsage, Report
from apf_middleware.fleet.notice_board import Board
from apf_middleware.fleet.samples import DurationSamples

__all__ = ["LONGEST_AGE_NS", "UNKNOWN_CONFIGURATION", "MemberConfiguration", "Membership"]

LONGEST_AGE_NS: Final = 2**53 - 1
"""The largest age of a configuration in a report: older ones count as that old, which is about a hundred days."""


@dataclass(frozen=True, slots=True)
class MemberConfiguration(Value):
    """What a member's configuration says about seats: its ``digest``, when it came into force, and the ``budget``."""

    digest: str
    since: int
    budget: Budget | None


UNKNOWN_CONFIGURATION: Final = MemberConfiguration("", 0, None)
"""The configuration of a member that has none to tell."""


class Membership:
    """One ``member``; ``grant`` is the allocator's last one, and ``limit`` what follows from it for the levels.

    A lease lasts for ``lease_ns``. ``epoch`` is that of the allocator that the member reports to: it ignores earlier
    ones. The ``board`` is what operators have told this member, or others.
    """

    __slots__ = (
        "_held",
        "_held_until",
        "_lease_ns",
        "_number",
        "_sent",
        "answered_at",
        "board",
        "epoch",
        "floor",
        "grant",
        "limit",
        "member",
    )

    def __init__(self, member: str, *, lease_ns: int, floor: int = 0) -> None:
        self.member: str = member
        self._lease_ns = require_integer("lease_ns", lease_ns, least=1)
        self.floor: int = require_integer("floor", floor, least=0)
        self.board: Board = Board()
        self.epoch: int = 0
        self.grant: Grant | None = None
        self.limit: SeatGrant = SeatGrant(floor, fallback=floor)
        self.answered_at: int | None = None
        self._number = 0
        self._held: Mapping[str, int] = {}
        self._held_until = 0  # the number of a report
        self._sent: deque[tuple[int, int]] = deque()

    def seats(self, now: int) -> int:
        """Return the seats that the member may use at this moment."""
        return self.limit.seats if now < self.limit.lease_until else self.limit.fallback

    def join(self, epoch: int) -> None:
        """Report to the allocator of this ``epoch`` from now on, and ignore grants of earlier ones."""
        self.epoch = max(self.epoch, epoch)

    def maxes(self, now: int) -> Mapping[str, int]:
        """Return the parts of levels' maxes that the member may use at this moment; the others aren't divided."""
        return self.limit.maxes if now < self.limit.lease_until else {}

    def report(
        self,
        now: int,
        in_use: int,
        levels: Mapping[str, LevelUsage],
        configuration: MemberConfiguration = UNKNOWN_CONFIGURATION,
        *,
        asks: bool = False,
        samples: DurationSamples | None = None,
        used: Mapping[str, int] = {},
        leaving: Mapping[str, SeatDemand] | None = None,
    ) -> Report:
        """Return a report sent ``now``, with the seats ``used`` of divided maxes, and the ``leaving`` levels."""
        self._number_next(now)
        maxes = self.maxes(now)
        grant = self.grant if self.grant is not None and self.grant.epoch == self.epoch else None
        is_used = grant is not None and grant.configuration == configuration.digest
        if configuration.budget is not None:
            self._follow(configuration.budget.floor, is_set_aside=is_used)
        if is_used and grant is not None and grant.total and configuration.budget is not None:
            is_used = grant.claimed == configuration.budget.seats
        return Report(
            self.member,
            self._number,
            self.epoch,
            0 if grant is None else grant.sequence,
            self.seats(now),
            in_use,
            configuration.digest,
            levels,
            max(0, min(now - configuration.since, LONGEST_AGE_NS)),
            None if is_used else configuration.budget,
            self.board.digest,
            {} if grant is not None and grant.board == self.board.digest else dict(self.board.notices),
            asks,
            samples,
            dict(maxes),
            leaving or {},
            {name: seats for name, seats in used.items() if name in maxes and seats > maxes[name]},
        )

    def _number_next(self, now: int) -> None:
        """Count a report that is sent ``now``, and forget when those were sent that are older than a lease."""
        self._number += 1
        self._sent.append((self._number, now))
        while self._sent[0][1] + self._lease_ns <= now:
            self._sent.popleft()

    def _follow(self, floor: int, *, is_set_aside: bool) -> None:
        """Have the ``floor`` of the configuration in force; a higher one only if the allocator has set it aside."""
        if floor < self.floor or (floor > self.floor and is_set_aside):
            limit, seats = self.limit, floor if self.grant is None else self.limit.seats
            self.floor, self.limit = floor, replace(limit, seats=seats, fallback=floor)

    def receive(self, now: int, grant: Grant) -> bool:
        """Adopt ``grant``; return False if it is outdated, or if its lease has ended already."""
        if grant.epoch != self.epoch:
            return False
        known = self.grant
        if known is not None and known.epoch == grant.epoch and grant.sequence <= known.sequence:
            return False
        sent_at = self._sent_at(grant.report)
        if sent_at is None or sent_at + self._lease_ns <= now:
            return False
        levels = {name: LevelGrant(part.weight, part.least) for name, part in grant.levels.items()}
        self.grant, self.answered_at = grant, now
        if grant.report >= self._held_until:
            self._held = {}
        maxes = {**self._held, **grant.maxes}
        self.limit = SeatGrant(grant.seats, sent_at + self._lease_ns, self.floor, levels, grant.most, maxes)
        return True

    def hold_maxes(self, maxes: Mapping[str, int]) -> None:
        """Use at most these seats of maxes that are new here, until a grant answers a report that is sent later."""
        self._held, self._held_until = {**self._held, **maxes}, self._number + 1
        self.lower_maxes(maxes)

    def lower(self, now: int, seats: int) -> bool:
        """Use at most ``seats`` until the next grant; return whether that is less than before.

        The next report tells the allocator.
        """
        limit = self.limit
        if max(seats, self.floor) >= self.seats(now):
            return False
        levels = {name: LevelGrant(part.weight) for name, part in limit.levels.items()}
        self.limit = replace(limit, seats=max(seats, self.floor), levels=levels)
        return True

    def lower_maxes(self, maxes: Mapping[str, int]) -> None:
        """Use at most these seats of divided maxes until the next grant; the next report tells the allocator."""
        self.limit = replace(self.limit, maxes={**self.limit.maxes, **maxes})

    def _sent_at(self, number: int) -> int | None:
        """Return when the report of this number was sent, if that is less than a lease ago."""
        sent = self._sent
        place = number - sent[0][0] if sent else -1  # the numbers are consecutive
        return sent[place][1] if 0 <= place < len(sent) else None

    def waited(self, now: int) -> int:
        """Return the time from the report that the last grant answers until ``now``."""
        return now - (self.limit.lease_until - self._lease_ns)

    def __repr__(self) -> str:
        return f"<Membership of {self.member!r}: {self.limit.seats} seats in epoch {self.epoch}>"
