"""What the allocator knows of one member.

The lease of an account is counted from the receipt of the last report. The member counts it from sending the same
report, which is earlier, whichever grant answers that report.

A member whose lease has ended has lowered its own limit to the floor of all members (see `membership`), which is set
aside for members without an account, too. So its account is closed.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from apf_middleware.fleet.budget import key_of
from apf_middleware.fleet.debt import Debt
from apf_middleware.fleet.messages import Report

if TYPE_CHECKING:
    from apf_middleware.fleet.messages import LevelUsage

__all__ = ["MemberAccount"]

_NONE: Final = -1


class MemberAccount:
    """One member: its last ``report``, the `Debt` of all its seats, and those of the levels whose max is divided.

    The ``usages`` are those of the report, by the levels' keys in the newest budget.

    The account is closed at ``lease_until``, unless the member reports before that. No grant is below its floor. Until
    ``quiet_until`` a report needs no answer, unless the seats change. The member has had its configuration since
    ``configured_at``. It obeys the grant ``confirmed``; the last one sent has this ``sequence``. Of the parts of
    maxes in it, the member has these ``granted`` ones.
    """

    __slots__ = (
        "configured_at",
        "confirmed",
        "debt",
        "granted",
        "lease_until",
        "maxes",
        "quiet_until",
        "report",
        "sequence",
        "usages",
    )

    def __init__(self, report: Report, now: int, lease_until: int, floor: int) -> None:
        self.report: Report = report
        self.usages: Mapping[str, LevelUsage] = report.levels
        self.lease_until: int = lease_until
        self.quiet_until: int = 0
        self.configured_at: int = now - report.age_ns
        self.sequence: int = report.sequence  # not 0 if this allocator has closed an account of the member before
        self.confirmed: int = _NONE
        self.debt: Debt = Debt(report.seats, report.in_use, floor)
        self.maxes: dict[str, Debt] = {}
        self.granted: Mapping[str, int] = {}

    def receive(self, report: Report, epoch: int, now: int, lease_until: int, floor: int) -> bool:
        """Take a report, unless a later one has arrived already; return whether it gives seats back.

        The answer gives a lease until ``lease_until``. The member keeps ``floor`` seats from now on.
        """
        if report.number <= self.report.number:
            return False
        owed = self._all_owed()
        if report.configuration != self.report.configuration:
            self.configured_at = now - report.age_ns
        self.report = report
        self.lease_until = lease_until
        self.confirmed = report.sequence if report.epoch == epoch else _NONE
        # if a report that came late has opened the account again, the member knows grants with higher numbers
        self.sequence = max(self.sequence, self.confirmed)
        self.debt.confirm(self.confirmed, report.seats, report.in_use, floor)
        for name, debt in self.maxes.items():
            debt.confirm(self.confirmed, *self._use_of(name))
        # of these parts it may have given some back
        self.granted = {name: min(part, self.maxes[name].seats) for name, part in self.granted.items()}
        return any(now_owed < before for before, now_owed in zip(owed, self._all_owed(), strict=True))

    def read_usages(self, parents: Collection[str | None]) -> None:
        """Take the usages of the report, by the levels' keys in the budget with these ``parents``."""
        levels = self.report.levels
        is_same = levels.keys().isdisjoint(parents)
        self.usages = levels if is_same else {key_of(name, parents): usage for name, usage in levels.items()}

    def open_max(self, name: str) -> Debt:
        """Return the debt of a max that was not divided before; grants on their way may say nothing about it."""
        debt = self.maxes[name] = Debt(*self._use_of(name))
        if self.report.sequence != self.sequence:
            debt.grant(self.sequence, self.debt.owed)
        return debt

    def _use_of(self, name: str) -> tuple[int, int]:
        """Return the member's part of a max, and the seats in use: what it says nothing about, it uses as it likes."""
        report = self.report
        part = report.maxes.get(name)
        return (report.seats, self.debt.owed) if part is None else (part, report.exceeded.get(name, 0))

    def _all_owed(self) -> list[int]:
        return [self.debt.owed, *[debt.owed for debt in self.maxes.values()]]

    def grant(self, seats: int, maxes: Mapping[str, int] | None = None) -> int:
        """Note that a grant of ``seats`` and parts of ``maxes`` is sent; return its sequence number."""
        self.sequence += 1
        self.debt.grant(self.sequence, seats)
        self.granted = maxes or {}
        for name, part in self.granted.items():
            self.maxes[name].grant(self.sequence, part)
        return self.sequence

    def retract(self, now: int) -> None:
        """Note that the last grant has not been sent, so that another is needed ``now``."""
        self.debt.retract(self.sequence)
        for name in self.granted:
            self.maxes[name].retract(self.sequence)
        self.granted, self.quiet_until = {}, now

    def take(self, sequence: int, seats: int) -> None:
        """Note that a standing grant of ``seats`` has been sent; no other grant of this ``sequence`` has."""
        self.sequence = max(self.sequence, sequence)
        self.debt.grant(sequence, seats)
        for debt in self.maxes.values():  # a refused division may have opened them, and this grant limits none of them
            debt.grant(sequence, self.debt.owed)

    def __repr__(self) -> str:
        return f"<MemberAccount {self.report.member!r}: {self.debt.seats} seats, {self.debt.owed} owed>"
