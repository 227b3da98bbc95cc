"""What the allocator knows of one member, and the seats that it must assume the member to use.

The *debt* of a member is the largest number of seats that it may be using now: those in use as it last reported, or the
limit of any grant that it may still obey, whichever is more. A grant that lowers the limit reduces the debt only when
the member has confirmed it: by a report that names this grant, or a later one. So messages may be delayed or lost.

The lease of an account is counted from the receipt of the last report. The member counts it from sending the same
report, which is earlier, whichever grant answers that report.

A member whose lease has ended has lowered its own limit to the floor of all members (see `membership`), which is set
aside for members without an account, too. So its account is closed.
"""

from collections import deque
from typing import Final

from apf_middleware.fleet.messages import Report

__all__ = ["MemberAccount"]

_NONE: Final = -1


class MemberAccount:
    """One member: its last ``report``, and the ``seats`` of the last grant, which has this ``sequence``.

    The account is closed at ``lease_until``, unless the member reports before that. No grant is below ``floor``.
    Until ``quiet_until`` a report needs no answer, unless the seats change. The member has had its configuration since
    ``configured_at``. The ``debt`` is the most seats that it may be using, or may begin to use without another grant.
    """

    __slots__ = (
        "_confirmed",
        "_unconfirmed",
        "configured_at",
        "debt",
        "floor",
        "lease_until",
        "quiet_until",
        "report",
        "seats",
        "sequence",
    )

    def __init__(self, report: Report, now: int, lease_until: int, floor: int) -> None:
        self.report: Report = report
        self.lease_until: int = lease_until
        self.floor: int = floor
        self.quiet_until: int = 0
        self.configured_at: int = now - report.age_ns
        self.sequence: int = report.sequence  # not 0 if this allocator has closed an account of the member before
        self.seats: int = report.seats
        self._confirmed: int = report.seats
        self._unconfirmed: deque[tuple[int, int]] = deque()  # sequence numbers and seats of grants
        self.debt: int = self._most_used()

    def _most_used(self) -> int:
        return max(self.floor, self._confirmed, self.report.in_use, *[seats for _, seats in self._unconfirmed])

    def receive(self, report: Report, epoch: int, now: int, lease_until: int, floor: int) -> None:
        """Take a report, unless a later one has arrived already; the answer gives a lease until ``lease_until``.

        The member keeps ``floor`` seats from now on.
        """
        if report.number <= self.report.number:
            return
        if report.configuration != self.report.configuration:
            self.configured_at = now - report.age_ns
        self.report = report
        self.lease_until = lease_until
        self.floor = floor
        confirmed = report.sequence if report.epoch == epoch else _NONE
        # if a report that came late has opened the account again, the member knows grants with higher numbers
        self.sequence = max(self.sequence, confirmed)
        while self._unconfirmed and self._unconfirmed[0][0] <= confirmed:
            self._unconfirmed.popleft()
        self._confirmed = report.seats
        if not self._unconfirmed:
            self.seats = report.seats  # the member may have given seats back
        self.debt = self._most_used()

    def grant(self, seats: int) -> int:
        """Note that a grant of ``seats`` is sent; return its sequence number."""
        self.sequence += 1
        if self._unconfirmed and self._unconfirmed[-1][1] == seats:
            self._unconfirmed[-1] = (self.sequence, seats)  # the same limit again, for a new lease
        else:
            self._unconfirmed.append((self.sequence, seats))
        self.seats = seats
        self.debt = self._most_used()
        return self.sequence

    def __repr__(self) -> str:
        return f"<MemberAccount {self.report.member!r}: {self.seats} seats, {self.debt} owed>"
