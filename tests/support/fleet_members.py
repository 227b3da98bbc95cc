"""Members of a fleet in one process, each with a controller of its own, which meet at a real store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from apf_middleware.asgi.fleet import build_fleet
from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission, Controller

__all__ = ["SEATS", "BusyProcess", "FleetProcess", "find_more_seats", "running", "until", "waits"]

SEATS = 8
PATIENCE_S = 60.0


def configuration(fleet: str, seats: str, max_seats: int) -> Configuration:
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
spec:
  seats: {seats}
  defaults: none
  fleet: {{name: shop, {fleet}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 1000, maxSeats: {max_seats}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, rules: [{{httpRules: [{{}}]}}]}}
"""
    )


class FleetProcess:
    """One process of the fleet with these settings, with a controller of its own."""

    def __init__(self, fleet: str, seats: str = f"{SEATS}", max_seats: int = SEATS) -> None:
        self.controller = Controller(configuration(fleet, seats, max_seats))
        settings = self.controller.configuration.server.fleet
        assert settings is not None
        self.fleet = build_fleet(self.controller, settings)
        self.scope = anyio.CancelScope()

    async def serve(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        with self.scope:
            await self.fleet.serve(task_status=task_status)

    def arrive(self, flow: str) -> Admission:
        place = Classification("all", "web", flow, sum(flow.encode()))
        admission = Admission(self.controller.destination(place, Work()))
        self.controller.arrive(self.controller.now(), admission)
        return admission

    @property
    def seats(self) -> int:
        member = self.controller.member
        return 0 if member is None else member.membership.seats(self.controller.now())  # type: ignore[attr-defined]

    @property
    def is_answered(self) -> bool:
        """Whether the allocator has answered a report of this process."""
        reading = self.fleet.participant.reading()
        return reading is not None and reading.age_ns is not None

    @property
    def epochs(self) -> int:
        """How often this process has become the allocator."""
        reading = self.fleet.participant.reading()
        return 0 if reading is None else reading.epochs

    @property
    def allocates_no_more(self) -> bool:
        """Whether this process has been the allocator and isn't now."""
        return self.epochs > 0 and self.fleet.participant.allocator is None

    @property
    def in_use(self) -> int:
        return self.controller.levels["web"].shared.snapshot().seats_in_use


@asynccontextmanager
async def running(*members: FleetProcess) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        for member in members:
            await tasks.start(member.serve)
        yield
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], bool], *members: FleetProcess, seats: int = SEATS) -> None:
    """Wait until ``condition()`` is true; the limits in force must never add up to more than the ``seats``."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            assert sum(member.seats for member in members) <= seats
            assert sum(member.in_use for member in members) <= seats
            await anyio.sleep(0.005)


class BusyProcess(FleetProcess):
    """A process of a fleet whose number of seats adapts; its requests take no longer if there are more of them."""

    def __init__(self, fleet: str) -> None:
        super().__init__(fleet, "{adaptive: {min: 4, max: 60}}", 60)

    async def work(self) -> None:
        """Serve requests of 5 ms, of which many wait all the time."""
        waiting = [self._ask() for _ in range(80)]
        while True:
            await anyio.sleep(0.005)
            for admission in [one for one in waiting if one.is_seated]:
                waiting.remove(admission)
                self.controller.release(admission)
                waiting.append(self._ask())

    def _ask(self) -> Admission:
        destination = self.controller.destination(Classification("all", "web", "a", 7), Work())
        destination.route = "GET /"
        admission = Admission(destination)
        self.controller.arrive(self.controller.now(), admission)
        return admission


async def find_more_seats(one: BusyProcess, two: BusyProcess) -> None:
    """Check that the seats of both become more, and that the next allocator goes on with their number."""
    async with anyio.create_task_group() as work, running(two):
        async with running(one):
            work.start_soon(one.work)
            work.start_soon(two.work)
            await until(lambda: one.controller.seats == two.controller.seats >= 30, one, two, seats=60)
            first, second = (process.fleet.participant for process in (one, two))
            [total] = [process.allocator.total for process in (first, second) if process.allocator is not None]
            assert total is not None
            assert total.decisions["grew"] >= 1
            readings = [process.reading() for process in (first, second)]
            assert sum(reading is not None and reading.adaptive is not None for reading in readings) == 1
            assert all(reading is not None and reading.seats >= 30 for reading in readings)
            for process in (one, two):
                assert process.controller.adaptive is not None
                assert process.controller.adaptive.reason
        await until(lambda: second.allocator is not None and second.allocator.total is not None, two, seats=60)
        assert two.controller.seats >= 25, "it goes on with the number that it knows"
        work.cancel_scope.cancel()


def waits(admissions: list[Admission]) -> int:
    return sum(one.is_waiting for one in admissions)
