"""When a simulated member reports, and that it obeys grants."""

from apf_middleware.fairqueuing import Lending
from apf_middleware.fleet.messages import Grant, Report
from apf_middleware.runtime import Controller
from apf_middleware.runtime.event_queue import EventQueue
from apf_middleware.simulation.fleet.member import SimulatedMember
from tests.support.fleet_scenarios import fleet_scenario

MS = 10**6


class Exchange:
    """A member, with the times and the contents of its reports."""

    def __init__(self) -> None:
        _, configuration = fleet_scenario()
        assert configuration.server.fleet is not None
        self.events = EventQueue()
        self.controller = Controller(configuration, now=self.events.read)
        self.reports: list[tuple[int, Report]] = []
        self.member = SimulatedMember(
            "0.1", 0, self.controller, settings=configuration.server.fleet, events=self.events, send=self.note
        )
        self.member.begin(1, 0)

    def note(self, member: SimulatedMember, report: Report) -> None:
        assert member is self.member
        self.reports.append((self.events.now, report))


def test_it_reports_at_each_interval_and_when_it_is_woken() -> None:
    exchange = Exchange()
    exchange.events.at(100 * MS, lambda _: exchange.member.production.wake(), None)
    exchange.events.run(700 * MS)

    assert [at // MS for at, _ in exchange.reports] == [0, 100, 350, 600]
    assert [report.number for _, report in exchange.reports] == [1, 2, 3, 4]


def test_two_reports_have_a_gap() -> None:
    exchange = Exchange()
    for _ in range(5):
        exchange.events.at(100_000, lambda _: exchange.member.production.wake(), None)
    exchange.events.run(10 * MS)

    assert [at for at, _ in exchange.reports] == [0, MS]


def test_it_obeys_grants_of_its_epoch_until_it_ends() -> None:
    exchange = Exchange()
    sharing = exchange.controller.sharing
    assert isinstance(sharing, Lending)
    exchange.events.run(1)
    exchange.member.receive(Grant(epoch=1, sequence=1, report=1, seats=7))
    assert exchange.member.production.membership.seats(2) == 7
    exchange.member.join(2)
    exchange.events.run(2 * MS)
    assert exchange.reports[-1][1].epoch == 2
    exchange.member.end()
    exchange.member.receive(Grant(epoch=2, sequence=1, report=2, seats=9))
    exchange.member.join(3)
    exchange.events.run(10_000 * MS)

    assert exchange.member.production.membership.seats(3 * MS) == 7
    assert exchange.reports[-1][0] <= 2 * MS
