"""Members of a fleet in one process, each with a controller of its own, which meet at a real store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from apf_middleware.asgi.fleet import build_fleet
from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load_text
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission, Controller

__all__ = ["SEATS", "FleetProcess", "running", "until", "waits"]

SEATS = 8
PATIENCE_S = 60.0


def configuration(fleet: str) -> Configuration:
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
spec:
  seats: {SEATS}
  defaults: none
  fleet: {{name: shop, {fleet}}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: web}}
spec: {{shares: 1000, maxSeats: {SEATS}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: web, rules: [{{httpRules: [{{}}]}}]}}
"""
    )


class FleetProcess:
    """One process of the fleet with these settings, with a controller of its own."""

    def __init__(self, fleet: str) -> None:
        self.controller = Controller(configuration(fleet))
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
    def in_use(self) -> int:
        return self.controller.levels["web"].shared.snapshot().seats_in_use


@asynccontextmanager
async def running(*members: FleetProcess) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        for member in members:
            await tasks.start(member.serve)
        yield
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], bool], *members: FleetProcess) -> None:
    """Wait until ``condition()`` is true; the limits in force must never add up to more than the budget."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            assert sum(member.seats for member in members) <= SEATS
            assert sum(member.in_use for member in members) <= SEATS
            await anyio.sleep(0.005)


def waits(admissions: list[Admission]) -> int:
    return sum(one.is_waiting for one in admissions)
