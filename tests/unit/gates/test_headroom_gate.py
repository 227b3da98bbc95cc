"""The gate that keeps seats for short requests, driven by hand."""

from apf_middleware.fairqueuing.headroom import Headroom
from apf_middleware.gates import GateRequest, ParkDecision
from apf_middleware.gates.headroom_gate import HeadroomGate

MS = 10**6
LONG = GateRequest("web", "all", "long")
WIDE = GateRequest("web", "all", "long", seats=4)
SHORT = GateRequest("web", "all", "short")


class GateBench:
    """A gate of a level with 5 seats, where typical requests take 100 ms, and those of the flow ``short`` 1 ms."""

    def __init__(self) -> None:
        self.now = 0
        self.seats = 5
        headroom = Headroom(20)
        for _ in range(20):
            headroom.observe(100 * MS, 1)
        self.gate = HeadroomGate(
            "headroom:web",
            headroom,
            expected_ns=lambda request: MS if request.flow == "short" else None,
            seats=lambda: self.seats,
            clock=lambda: self.now,
        )

    def ask(self, request: GateRequest) -> object:
        return self.gate.acquire(self.now, request, self.gate.key(request), self.gate.cost(request))


def test_long_requests_have_all_seats_while_no_short_ones_come() -> None:
    bench = GateBench()
    leases = [bench.ask(LONG) for _ in range(6)]

    assert [isinstance(lease, ParkDecision) for lease in leases] == [False] * 5 + [True]
    assert (bench.gate.used("long"), bench.gate.limit) == (5, 5)


def test_a_short_request_keeps_seats_from_its_arrival_on() -> None:
    bench = GateBench()
    assert (bench.gate.key(LONG), bench.gate.key(SHORT)) == ("long", "short")
    leases = [bench.ask(LONG) for _ in range(5)]

    assert [isinstance(lease, ParkDecision) for lease in leases] == [False] * 4 + [True]
    assert not isinstance(bench.ask(SHORT), ParkDecision)
    assert (bench.gate.used("long"), bench.gate.limit) == (4, 4)


def test_seats_count_by_width_and_come_back() -> None:
    bench = GateBench()
    bench.ask(SHORT)
    lease = bench.ask(WIDE)
    assert isinstance(bench.ask(LONG), ParkDecision)
    bench.gate.release("long", lease)
    assert bench.gate.used("long") == 0
    lease = bench.ask(LONG)
    assert not isinstance(lease, ParkDecision)
    bench.gate.undo("long", lease)
    assert bench.gate.used("long") == 0


def test_the_limit_in_force_counts() -> None:
    bench = GateBench()
    bench.ask(SHORT)
    bench.seats = 2
    assert not isinstance(bench.ask(LONG), ParkDecision)
    assert isinstance(bench.ask(LONG), ParkDecision)
    bench.seats = 50
    assert not isinstance(bench.ask(LONG), ParkDecision)


def test_it_learns_from_requests_that_were_served_only() -> None:
    bench = GateBench()
    before = bench.gate.headroom.typical_ns
    lease = bench.ask(LONG)
    bench.now += 10_000 * MS
    bench.gate.undo("long", lease)
    assert bench.gate.headroom.typical_ns == before

    bench.gate.release("short", bench.ask(SHORT))
    assert bench.gate.headroom.typical_ns == before
    lease = bench.ask(LONG)
    bench.now += 10_000 * MS
    bench.gate.release("long", lease)
    assert bench.gate.headroom.typical_ns > 5_000 * MS
