"""The allocator: it computes the seats of each member from their reports, and never grants more than there are.

Each round computes the fair shares and the whole seats of each member, its *target*. A member above its target gets a
grant with fewer seats at once; those seats are free only when it has confirmed that (see `member_account`). Members
below their targets get what is free now: the budget less all debts, and less the floors of members that aren't known.
So the sum of all debts never exceeds the budget, except by requests that outlive a lease: a member that was silent for
longer than its lease then reports more seats in use than its floor. The excess is measured as ``overshoot``.

The maxes of levels are divided first, in the same way (see `level_maxes`).

**A new allocator** doesn't know which grants its predecessor made. Until all members that are ``expected`` have
reported, or all old leases have ended, it only moves seats that members have reported to have: the others may be in use
by members that it doesn't know yet.

That is enough if the store keeps two rules. An allocator sends no grants once a later epoch has begun: it looks for one
after it has taken the reports and the time for `Allocator.divide`, and before it calls that. What it sends after this
look may be late. And ``expected`` are the members that are known after the epoch has begun; a member is known before it
looks for the latest epoch.

**Configurations.** The budget is that of the newest configuration: of those that members have now, the one that the
first member to have it has had for the shortest time. Only durations are compared, because clocks differ.

**No contention.** While all demands can be met, a member keeps its seats as long as they are enough for it, so that
seats don't move for nothing. They are divided anew when a member needs more, and from time to time.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.fairqueuing.sharing.proportion import SeatDemand
from apf_middleware.fleet.budget import Budget, level_of
from apf_middleware.fleet.debt import grantable
from apf_middleware.fleet.level_max import CALM_TURNS
from apf_middleware.fleet.level_maxes import LevelMaxes
from apf_middleware.fleet.level_sums import sum_levels
from apf_middleware.fleet.member_account import MemberAccount
from apf_middleware.fleet.messages import Grant, LevelPart, MemberRow, Report
from apf_middleware.fleet.notice_board import Board
from apf_middleware.fleet.promises import KeptSeats, moved_promises
from apf_middleware.fleet.rotation import MemberDemand, Rotation
from apf_middleware.fleet.shares import FleetShares, LevelAmounts, MemberShare, divide_budget
from apf_middleware.fleet.standing_grant import Holding, StandingGrant
from apf_middleware.fleet.total import FleetTotal

__all__ = ["Allocator"]

_WEIGHT: Final = 1024  # the weight of a level for each seat of its share
_ANSWERS: Final = 2  # at most this number of answers in each turn change nothing but the lease and the flows' factors
_MOST_MEMBERS: Final = 64  # that pass seats on; in larger fleets one seat matters less than the time of the store


class Allocator:
    """The allocator of one ``epoch``, which begins ``now``, in the process of ``member``.

    The ``board`` is what the members have told each other, and ``standing`` the grant that waits in the store until a
    member gives a seat back (see `standing_grant`).

    Leases last for ``lease_ns``, and ``margin_ns`` longer for the allocator; a remaining seat stays with a member for
    ``turn_ns``. Each of ``most_members`` is left at least the budget's floor, whether it is known or not. ``expected``
    are the members that may have grants of an earlier allocator; None means that any number of members may.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        epoch: int,
        now: int,
        lease_ns: int,
        margin_ns: int,
        turn_ns: int,
        most_members: int = 0,
        expected: Collection[str] | None = None,
        member: str = "",
    ) -> None:
        self.budget: Budget = budget
        self.epoch: int = epoch
        self.member: str = member
        self.configuration: str = ""
        self.board: Board = Board()
        self.accounts: dict[str, MemberAccount] = {}
        self.shares: FleetShares = FleetShares({}, {}, is_contended=False)
        self.overshoot: int = 0  # in seat-nanoseconds
        self.total: FleetTotal | None = None
        self.standing: StandingGrant | None = None
        self._claimed = budget.seats  # the number of seats of which the levels' claims are
        self._tolerated = budget.seats  # while requests end that had seats of a larger total
        self._owed = 0  # the debts of all accounts
        self._first_lapse = now  # no lease ends before
        self._expected = None if expected is None else set(expected)
        self._budgets: dict[str, Budget] = {}  # by configuration
        self._reported = 0  # the seats that members had when they reported for the first time
        self._learns_until = now + lease_ns + margin_ns
        self._lease_ns, self._margin_ns, self._turn_ns = lease_ns, margin_ns, turn_ns
        self._most_members = most_members
        self._rotation = Rotation(turn_ns, now)
        self._targeted: Mapping[str, int] = {}
        self._moved: Mapping[str, Mapping[str, int]] = {}  # parts of promises
        self._kept: Mapping[str, KeptSeats] = {}
        self._maxes = LevelMaxes(turn_ns)
        self._levels = LevelAmounts()
        self._divided_at = self._now = now

    @property
    def debt(self) -> int:
        """The most seats that all members may be using, known or not."""
        return self._set_aside + self._owed

    @property
    def _set_aside(self) -> int:
        """The floors of members that aren't known."""
        return self.budget.floor * max(0, self._most_members - len(self.accounts))

    @property
    def _most(self) -> int:
        """The most seats that one member can have, because the others keep their floors."""
        others = max(self._most_members, len(self.accounts)) - 1
        return max(self.budget.floor, self.budget.seats - self.budget.floor * others)

    def is_learning(self, now: int) -> bool:
        """Return whether members may have grants that this allocator doesn't know."""
        return now < self._learns_until and (self._expected is None or not self._expected <= self.accounts.keys())

    def learning_ns(self, now: int) -> int:
        """Return for how long at most members may have grants that this allocator doesn't know."""
        return self._learns_until - now if self.is_learning(now) else 0

    def expect(self, members: Collection[str]) -> None:
        """Set the members that may have grants of an earlier allocator, because others have ended."""
        self._expected = set(members)

    def receive(self, now: int, report: Report) -> bool:
        """Take a member's report; return whether it gives seats back that others can have.

        A report for the allocator of another epoch, whose grants the member obeys, is ignored.
        """
        self._pass_time(now)
        if report.epoch != self.epoch:
            return False
        is_less = False
        lease_until = now + self._lease_ns + self._margin_ns
        account, floor = self.accounts.get(report.member), self._floor_of(report)
        if account is None:
            account = self.accounts[report.member] = MemberAccount(report, now, lease_until, floor)
            self._first_lapse = min(self._first_lapse, lease_until)
            self._owed += account.debt.owed
            self._reported += max(report.seats, floor)
        else:
            self._owed -= account.debt.owed
            is_less = account.receive(report, self.epoch, now, lease_until, floor)
            self._owed += account.debt.owed
        if report.budget is not None:
            self._budgets[report.configuration] = report.budget
        self.board.merge(report.notices)
        if self.total is not None and report.samples is not None:
            self.total.observe(now, report.samples)
        return is_less

    def _floor_of(self, report: Report) -> int:
        """Return the seats that a member keeps without a lease; by an outdated configuration they may be more."""
        floor = self.budget.floor
        if report.configuration == self.configuration:
            return floor
        account = self.accounts.get(report.member)
        outdated = report.budget or self._budgets.get(report.configuration, self.budget)
        return max(floor, outdated.floor, 0 if account is None else account.debt.floor)

    def leave(self, now: int, member: str) -> None:
        """Forget a member that has certainly ended, with all its requests."""
        self._pass_time(now)
        self._close(member)
        if self._expected is not None:
            self._expected.discard(member)

    def _pass_time(self, now: int) -> None:
        debt = self.debt
        self._tolerated = max(self.budget.seats, min(self._tolerated, debt))
        self.overshoot += max(0, debt - self._tolerated) * (now - self._now)
        self._now = now
        if now >= self._first_lapse:
            for name in [name for name, account in self.accounts.items() if now >= account.lease_until]:
                self._close(name)
            leases = (account.lease_until for account in self.accounts.values())
            self._first_lapse = min(leases, default=now + self._lease_ns)

    def _close(self, member: str) -> None:
        account = self.accounts.pop(member, None)
        if account is not None:
            self._owed -= account.debt.owed

    def divide(self, now: int, asking: Collection[str]) -> dict[str, Grant]:
        """Return the grants to be sent now: to members whose seats change, and to those that are ``asking``.

        Members that have had an answer a short time ago get none that changes nothing.
        """
        self._pass_time(now)
        live = self.accounts
        self._choose_configuration()
        self._adapt(now)
        budget = self.budget.including(self._former_levels())
        parents = budget.parents
        for account in live.values():
            account.read_usages(parents)
        usages = {name: account.usages for name, account in live.items()}
        shared = replace(budget, seats=max(0, budget.seats - self._set_aside)) if self._set_aside else budget
        self.shares = divide_budget(shared, usages, self._levels)
        if self.debt > budget.seats:  # a max that the seats don't exceed may be exceeded until they are given back
            budget = replace(budget, seats=self.debt)
        self._maxes.divide(now, budget, live, self.shares, is_learning=self.is_learning(now))
        self._targeted = self._targets(now)
        granted = self._grantable(now, self._targeted)
        self._keep(granted)
        grants = {}
        for name, account in live.items():
            has_news = name in asking or account.report.board != self.board.digest
            maxes = self._maxes.granted(name)
            has_changed = granted[name] != account.debt.seats or maxes != account.granted
            if has_changed or (has_news and now >= account.quiet_until):
                grants[name] = self._grant(account, granted[name], maxes)
                account.quiet_until = now + self._turn_ns // _ANSWERS
        return grants

    def stand(self, now: int) -> StandingGrant | None:
        """Return a grant to be left in the store with those of the division before, instead of an earlier one.

        It is for the member that would get the next seat that another gives back. When the store has it, set
        ``standing`` to it.
        """
        following = self._next_member(now)
        if following is None:
            return None
        givers = {
            name: Holding.under(account.sequence, self.configuration, account.debt.owed - 1)
            for name, account in self.accounts.items()
            if name != following and account.debt.owed > max(self.budget.floor, account.debt.floor)
        }
        if not givers:
            return None
        account = self.accounts[following]
        grant = self._message(account, account.sequence + 1, account.debt.seats + 1, {})
        return StandingGrant(following, grant, givers)

    def _next_member(self, now: int) -> str | None:
        """Return the member that would get the next seat; None if that can't be known before it is free."""
        live = self.accounts
        is_plain = self.shares.is_contended and not self._maxes.are_divided and not self._rotation.is_wide
        if not is_plain or len(live) > _MOST_MEMBERS or self.debt > self.budget.seats or self.is_learning(now):
            return None
        missing = {name: self._targeted[name] - account.debt.seats for name, account in live.items()}
        wanting = [
            name
            for name, account in live.items()
            if account.debt.seats < self._most and (missing[name] > 0 or _demand(account.report) > account.debt.seats)
        ]
        return max(wanting, key=lambda name: (missing[name], self._rotation.lag(name), name), default=None)

    def take(self, now: int) -> None:
        """Note that the standing grant has come into force."""
        self._pass_time(now)
        standing, self.standing = self.standing, None
        account = None if standing is None else self.accounts.get(standing.member)
        if standing is not None and account is not None:  # otherwise its lease has ended
            self._owed -= account.debt.owed
            account.take(standing.grant.sequence, standing.grant.seats)
            self._owed += account.debt.owed

    def retract(self, now: int, members: Collection[str]) -> None:
        """Note that the store has refused the last grants, those of ``members``: the standing grant is in force.

        `take` is to be called next, after the reports that the store has.
        """
        for name in members:
            account = self.accounts[name]
            self._owed -= account.debt.owed
            account.retract(now)
            self._owed += account.debt.owed

    def _choose_configuration(self) -> None:
        """Use the budget of the newest configuration, as far as members have sent budgets."""
        since: dict[str, int] = {}
        for account in self.accounts.values():
            name = account.report.configuration
            since[name] = min(account.configured_at, since.get(name, account.configured_at))
        known = [name for name in since if name in self._budgets]
        if known:
            self.configuration = max(known, key=lambda name: (since[name], name))
            self.budget = self._budgets[self.configuration]
            self._budgets = {name: self._budgets[name] for name in known}

    def _former_levels(self) -> dict[str, SeatDemand]:
        """Return the claims of levels that members may have although the newest configuration doesn't name them.

        They are promised no more than they demand, but one seat at least.
        """
        found: dict[str, SeatDemand] = {}
        for name, budget in self._budgets.items():
            if name != self.configuration:
                found |= {level: budget.claims[level] for level in budget.leaves}
        reports = [account.report for account in self.accounts.values()]
        for report in reports:
            found |= report.leaving
        for name in found.keys() - set(self.budget.leaves):
            demand = sum(report.levels[name].demand for report in reports if name in report.levels)
            wanted = replace(found[name], demand=demand, least=0)
            found[name] = replace(wanted, least=min(wanted.upper, max(1, found[name].least)))
        return found

    def _adapt(self, now: int) -> None:
        """Let the total of seats follow what the members have reported, if it adapts."""
        budget = self.budget
        if budget.bounds is None:
            self.total = None
            return
        if self.total is None or self.total.bounds != budget.bounds:
            self.total = FleetTotal(budget.bounds, budget.seats if self.total is None else self.total.seats, now)
        seats = self.total.decide(now, budget, (one.report for one in self.accounts.values()))
        if self.configuration in self._budgets:
            self._claimed = self._budgets[self.configuration].seats
        self.budget = replace(budget, seats=seats)

    def _targets(self, now: int) -> dict[str, int]:
        """Return the seats that each member should have."""
        live = self.accounts
        is_time = now - self._divided_at >= CALM_TURNS * self._turn_ns
        if not self.shares.is_contended and not is_time and self.debt <= self.budget.seats:
            least = 1 if self.budget.seats >= len(live) else 0
            if all(one.debt.seats >= max(least, _demand(one.report)) for one in live.values()):
                return {name: one.debt.seats for name, one in live.items()}
        self._divided_at = now
        amounts = {name: share.amount for name, share in self.shares.members.items()}
        demands = {}
        usages = (usage for one in live.values() for usage in one.usages.values())
        if self._rotation.is_wide or any(usage.widest > 1 for usage in usages):
            demands = {name: self._demand_of(one) for name, one in live.items()}
        seats = max(0, self.budget.seats - self._set_aside)
        return self._rotation.divide(now, amounts, seats, demands, self.budget.floor)

    def _demand_of(self, account: MemberAccount) -> MemberDemand:
        """Return what a member wants and can use with its parts of the levels' maxes."""
        report = account.report
        usable = self._maxes.usable(report.member, account.usages)
        widest = min(usable.widest, self._most)
        return MemberDemand(usable.seats, report.in_use, widest, usable.turns, account.debt.seats)

    def _grantable(self, now: int, targets: Mapping[str, int]) -> dict[str, int]:
        """Return the seats that can be granted now."""
        free = self.budget.seats - self.debt
        if self.is_learning(now):
            free = min(free, self._reported - self._owed)
        return grantable(targets, {name: account.debt for name, account in self.accounts.items()}, free)

    def _keep(self, granted: Mapping[str, int]) -> None:
        """Find what members keep of the ``granted`` seats for mins, and what some of them keep for others."""
        has_mins = any(claim.least for claim in self.budget.claims.values())
        self._kept = {
            name: self._kept_of(account, granted[name], self._maxes.granted(name))
            for name, account in self.accounts.items()
            if has_mins and account.report.configuration == self.configuration
        }
        self._moved = moved_promises(self._kept)

    def _kept_of(self, account: MemberAccount, seats: int, maxes: Mapping[str, int]) -> KeptSeats:
        share = self.shares.members[account.report.member]
        return KeptSeats(share, seats, account.usages, maxes, self.shares.families)

    def _grant(self, account: MemberAccount, seats: int, maxes: Mapping[str, int]) -> Grant:
        self._owed -= account.debt.owed
        sequence = account.grant(seats, maxes)
        self._owed += account.debt.owed
        return self._message(account, sequence, seats, maxes)

    def _message(self, account: MemberAccount, sequence: int, seats: int, maxes: Mapping[str, int]) -> Grant:
        name = account.report.member
        share = self.shares.members[name]
        kept = self._kept.get(name)
        if kept is None or kept.seats != seats:
            kept = self._kept_of(account, seats, maxes)
        least = dict(kept.least)
        for level, change in self._moved.get(name, {}).items():
            least[level] = max(0, least[level] + change)
        self._maxes.leave_room(name, account.usages, least)
        return Grant(
            self.epoch,
            sequence,
            account.report.number,
            seats,
            len(self.shares.members),
            (share.reserve + share.spare) // SEAT,
            self.shares.is_contended,
            _level_parts(share, least),
            self.configuration,
            self.board.digest,
            self.board.notices if account.report.board != self.board.digest else {},
            self._rows() if account.report.asks else (),
            self.member,
            *((0, 0, "") if self.total is None else (self.total.seats, self._claimed, self.total.controller.reason)),
            sum_levels(one.report for one in self.accounts.values()) if account.report.asks else {},
            self._most,
            maxes,
            self._maxes.scarce if maxes else (),
        )

    def _rows(self) -> tuple[MemberRow, ...]:
        leased_ns = self._lease_ns + self._margin_ns
        return tuple(
            MemberRow(
                name,
                account.debt.seats,
                account.report.in_use,
                _demand(account.report),
                max(0, self._now - account.lease_until + leased_ns),
                account.report.configuration,
            )
            for name, account in sorted(self.accounts.items())
        )

    def __repr__(self) -> str:
        return (
            f"<Allocator of epoch {self.epoch}: {self.debt} of {self.budget.seats} seats, {len(self.accounts)} members>"
        )


def _demand(report: Report) -> int:
    return sum(usage.demand for usage in report.levels.values())


def _level_parts(share: MemberShare, least: Mapping[str, int]) -> dict[str, LevelPart]:
    """Return the parts of levels and parents of a member's seats."""
    # where a level of a parent's name has requests, it isn't a child of this parent, and the part is that of the level
    keys = sorted(share.levels, key=lambda key: key != level_of(key))
    return {
        level_of(key): LevelPart(max(1, one.amount * _WEIGHT // SEAT), least[key], one.factors)
        for key, one in ((key, share.levels[key]) for key in keys)
    }
