"""Levels that share a server's seats, under virtual time: who has his seats back when, and who gets how many."""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from heapq import heappop, heappush
from statistics import fmean

import pytest

from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Adjusting,
    Lending,
    LevelLimits,
    LevelShares,
    QueueSetSettings,
    Sharing,
    Ticket,
    Work,
    flow_hash,
    limits_from_shares,
)

MS = 10**6
SECOND = 1000 * MS

Service = Callable[[random.Random], int]

ONE = Work()

SERVICES: dict[str, Service] = {
    "constant": lambda _rng: 20 * MS,
    "exponential": lambda rng: 1 + int(rng.expovariate(1 / (20 * MS))),
    "mostly short, seldom long": lambda rng: 200 * MS if rng.random() < 0.1 else 5 * MS,
}


class Guest(Ticket):
    """A request that knows how long it will run, and what its client does afterwards."""

    __slots__ = ("and_then", "duration_ns", "level")

    def __init__(self, level: str, flow: str, duration_ns: int, work: Work, and_then: Callable[[], None]) -> None:
        super().__init__(flow, flow_hash(level, flow), work)
        self.level = level
        self.duration_ns = duration_ns
        self.and_then = and_then

    @property
    def waited(self) -> int:
        return self.seated_at - self.arrived_at

    @property
    def ends_at(self) -> int:
        return self.seated_at + self.duration_ns


class House:
    """Drives a sharing through virtual time, and ticks it whenever it asks for that."""

    def __init__(self, sharing: Sharing, service: Service = SERVICES["constant"], seed: int = 1) -> None:
        self.sharing = sharing
        self.service = service
        self.rng = random.Random(seed)
        self.now = 0
        self.guests: list[Guest] = []
        self._agenda: list[tuple[int, int, Callable[[], object]]] = []
        self._scheduled = 0
        self._seat_ns: dict[str, int] = defaultdict(int)
        self._watched_since = 0

    def at(self, time: int, action: Callable[[], object]) -> None:
        self._scheduled += 1
        heappush(self._agenda, (time, self._scheduled, action))

    def run(self, until: int) -> None:
        while True:
            due = self.sharing.next_event_at()
            first = self._agenda[0][0] if self._agenda else until + 1
            if min(first, until + 1 if due is None else due) > until:
                break
            if due is not None and due < first:
                self._pass(max(due, self.now))
                self._seat(self.sharing.tick(self.now))
                continue
            time, _, action = heappop(self._agenda)
            self._pass(time)
            action()
        self._pass(until)

    def _pass(self, time: int) -> None:
        for name, level in self.sharing.levels.items():
            used = level.queueset.seats_in_use + (level.alone is not None)
            self._seat_ns[name] += used * (time - self.now)
        self.now = time

    def average_seats(self) -> Mapping[str, float]:
        """Since the last time that it was asked."""
        averages = {name: self._seat_ns[name] / (self.now - self._watched_since) for name in self.sharing.levels}
        self._seat_ns.clear()
        self._watched_since = self.now
        return averages

    def call(self, level: str, flow: str, work: Work = ONE, and_then: Callable[[], None] = lambda: None) -> Guest:
        guest = Guest(level, flow, self.service(self.rng), work, and_then)
        self.guests.append(guest)
        self._seat(self.sharing.arrive(self.now, self.sharing.levels[level], guest))
        return guest

    def saturate(self, level: str, flow: str, threads: int, work: Work = ONE) -> None:
        """So many clients that call again as soon as they have been served."""

        def again() -> None:
            self.call(level, flow, work, again)

        for thread in range(threads):
            self.at(self.now + thread, again)

    def trickle(self, level: str, flow: str, every_ns: int, until: int) -> None:
        """Make a client that calls from time to time, served or not."""

        def again() -> None:
            self.call(level, flow)
            if self.now + every_ns < until:
                self.at(self.now + every_ns, again)

        self.at(self.now + self.rng.randrange(every_ns), again)

    def running(self, level: str) -> list[Guest]:
        return [guest for guest in self.guests if guest.level == level and guest.is_seated]

    def _seat(self, seated: object) -> None:
        assert isinstance(seated, list | tuple)
        for guest in seated:
            self.at(self.now + guest.duration_ns, partial(self._finish, guest))
        if len(self.guests) % 50 == 0:  # it recounts everything
            self.sharing.check()

    def _finish(self, guest: Guest) -> None:
        self._seat(self.sharing.release(self.now, self.sharing.levels[guest.level], guest))
        guest.and_then()


def queued(nominal: int) -> QueueSetSettings:
    return QueueSetSettings(nominal, queues=64, hand_size=6, queue_length_limit=1000)


def lending(seats: int, levels: Mapping[str, LevelShares], discipline: str = "equal-serial") -> Lending:
    limits = limits_from_shares(seats, levels)
    wanted = {
        name: (
            QueueSetSettings.without_limit(limits[name].nominal) if shares.exempt else queued(limits[name].nominal),
            limits[name],
        )
        for name, shares in levels.items()
    }
    return Lending(seats, wanted, discipline=DISCIPLINES[discipline])


# An owner wakes up


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("service", SERVICES)
def test_an_owner_has_its_nominal_seats_back_within_one_service_time(service: str, seed: int) -> None:
    """Each of its requests waits at most until the last of those ends who had its seats when it woke."""
    house = House(lending(20, {"owner": LevelShares(10, 100), "borrower": LevelShares(10)}), SERVICES[service], seed)
    house.saturate("borrower", "crawler", 100)
    house.run(SECOND)
    borrowers = house.running("borrower")
    assert len(borrowers) == 20
    last_end = max(guest.ends_at for guest in borrowers)

    owned = [house.call("owner", f"user {number}") for number in range(10)]
    house.run(last_end)

    assert all(guest.is_seated or guest.ends_at <= last_end for guest in owned)
    assert max(guest.seated_at for guest in owned) <= last_end
    assert max(guest.seated_at for guest in owned) < sorted(guest.ends_at for guest in borrowers)[10] + 1


@pytest.mark.parametrize("service", SERVICES)
def test_the_part_that_is_not_lendable_is_there_at_once(service: str) -> None:
    house = House(lending(20, {"owner": LevelShares(10, 60), "borrower": LevelShares(10)}), SERVICES[service])
    house.saturate("borrower", "crawler", 100)
    house.run(SECOND)
    assert len(house.running("borrower")) == 16

    owned = [house.call("owner", f"user {number}") for number in range(10)]

    assert [guest.is_seated for guest in owned] == [True] * 4 + [False] * 6


def test_kubernetes_way_takes_ten_seconds_where_lending_takes_one_service_time() -> None:
    """The control: what the immediate way is for."""
    shares = {"owner": LevelShares(10, 90), "borrower": LevelShares(10)}
    limits = limits_from_shares(20, shares)
    longest = {}
    for way in (Adjusting, Lending):
        house = House(way(20, {name: (queued(10), limits[name]) for name in shares}), lambda _rng: 100 * MS)
        house.saturate("borrower", "crawler", 100)
        house.run(60 * SECOND + 3 * SECOND)
        house.saturate("owner", "user", 10)
        house.run(75 * SECOND)
        owned = [guest for guest in house.guests if guest.level == "owner" and not guest.is_waiting]
        longest[way] = max(guest.waited for guest in owned if guest.arrived_at < 70 * SECOND)

    assert longest[Lending] <= 100 * MS
    assert longest[Adjusting] > 5 * longest[Lending]


# Shares


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_saturated_levels_get_seats_in_proportion_to_what_is_nominally_theirs(discipline: str) -> None:
    levels = {"a": LevelShares(10, 100), "b": LevelShares(20, 50), "c": LevelShares(30, 90)}
    house = House(lending(60, levels, discipline), SERVICES["exponential"])
    for name in levels:
        house.saturate(name, "flow", 100)
    house.run(SECOND)
    house.average_seats()
    house.run(2 * SECOND)

    assert house.average_seats() == pytest.approx({"a": 10, "b": 20, "c": 30})


def test_what_an_idle_level_lends_is_borrowed_in_proportion_too() -> None:
    levels = {"a": LevelShares(10, 100), "b": LevelShares(20, 50), "c": LevelShares(30, 100)}
    house = House(lending(60, levels), SERVICES["exponential"])
    house.saturate("a", "flow", 100)
    house.saturate("b", "flow", 100)
    house.run(SECOND)
    house.average_seats()
    house.run(5 * SECOND)

    assert house.average_seats() == pytest.approx({"a": 20, "b": 40, "c": 0}, abs=0.5)


def test_two_levels_that_share_one_seat_take_turns() -> None:
    limits = LevelLimits(1, 0, 1)
    house = House(Lending(1, {"a": (queued(1), limits), "b": (queued(1), limits)}))
    house.saturate("a", "flow", 5)
    house.saturate("b", "flow", 5)
    house.run(2 * SECOND)

    served = [guest.level for guest in house.guests if not guest.is_waiting]
    assert abs(served.count("a") - served.count("b")) <= 1


def test_a_wide_request_is_not_starved_by_narrow_ones_of_another_level() -> None:
    levels = {"wide": LevelShares(10, 100), "narrow": LevelShares(10, 100)}
    house = House(lending(20, levels), SERVICES["exponential"])
    house.saturate("narrow", "flow", 100)
    house.run(SECOND)
    house.saturate("wide", "flow", 3, Work(8))
    house.run(5 * SECOND)

    served = [guest for guest in house.guests if guest.level == "wide" and not guest.is_waiting]
    assert len(served) > 60
    assert max(guest.waited for guest in served) < 500 * MS


def test_exempt_load_takes_from_what_is_lent_and_leaves_the_mins() -> None:
    levels = {"system": LevelShares(0, exempt=True), "a": LevelShares(10, 50), "b": LevelShares(10, 80)}
    house = House(lending(20, levels), SERVICES["exponential"])
    house.saturate("a", "flow", 100)
    house.saturate("b", "flow", 100)
    house.run(SECOND)
    assert {name: len(house.running(name)) for name in "ab"} == {"a": 10, "b": 10}

    house.saturate("system", "probe", 40)
    house.run(2 * SECOND)
    house.average_seats()
    house.run(4 * SECOND)

    averages = house.average_seats()
    assert averages["system"] > 39
    assert averages["a"] == pytest.approx(5, abs=0.1)
    assert averages["b"] == pytest.approx(2, abs=0.1)


# Fairness inside levels whose seats come and go


@pytest.mark.parametrize(
    ("discipline", "longest"),
    [("equal-serial", 25 * MS), ("max-min-serial", 35 * MS), ("max-min-concurrent", 130 * MS)],  # fixed seats: 24 32 90
)
def test_mice_stay_ahead_of_elephants_inside_a_borrower_and_inside_an_owner(discipline: str, longest: int) -> None:
    """The owner sleeps and wakes twice a second, so that both levels' seats change all the time."""
    levels = {"owner": LevelShares(10, 80), "borrower": LevelShares(10, 20)}
    house = House(lending(20, levels, discipline))
    end = 6 * SECOND
    house.saturate("borrower", "elephant", 200)
    for begin in range(500 * MS, end, SECOND):
        for number in range(120):
            house.at(begin + number, partial(house.call, "owner", "elephant"))
    for level in levels:
        for mouse in range(5):
            house.trickle(level, f"mouse {mouse}", 100 * MS, end)
    house.run(end)

    for level in levels:
        mice = [guest for guest in house.guests if guest.level == level and guest.flow != "elephant"]
        elephants = [guest for guest in house.guests if guest.level == level and guest.flow == "elephant"]
        late = [guest for guest in mice if guest.arrived_at > 600 * MS and not guest.is_waiting]
        assert len(late) > 200
        assert max(guest.waited for guest in late) <= longest, f"mice in {level}"
        served = [guest.waited for guest in elephants if not guest.is_waiting]
        assert fmean(served) > 4 * fmean(guest.waited for guest in late)


def test_a_flow_that_comes_to_a_borrower_while_its_seats_are_reclaimed_does_not_stand_behind_the_backlog() -> None:
    """R at the level's limit instead of the seats in use would have run ahead of the elephant's meter meanwhile."""
    house = House(lending(20, {"owner": LevelShares(19, 100), "borrower": LevelShares(1, 0)}))
    house.saturate("borrower", "elephant", 200)
    house.run(SECOND)
    house.saturate("owner", "user", 100)
    house.run(10 * SECOND)
    assert len(house.running("borrower")) == 1

    mouse = house.call("borrower", "mouse")
    house.run(11 * SECOND)

    assert mouse.waited <= 40 * MS


# The whole


def test_the_same_load_gives_the_same_run_to_the_nanosecond() -> None:
    levels = {"a": LevelShares(10, 100), "b": LevelShares(20, 50), "system": LevelShares(0, exempt=True)}
    logs = []
    for _ in range(2):
        house = House(lending(30, levels), SERVICES["exponential"])
        for name in levels:
            house.saturate(name, "flow", 25)
            house.trickle(name, "wide", 30 * MS, SECOND)
        house.run(SECOND)
        logs.append([(guest.level, guest.seated_at) for guest in house.guests if guest.is_seated])

    assert logs[0] == logs[1]
    assert logs[0]
