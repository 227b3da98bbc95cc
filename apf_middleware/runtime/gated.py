"""A controller whose levels have gates: the same, and what gates need of time, threads and event loops.

A server without gates has a plain `Controller`, so that gates cost it nothing. Here a gated sharing, driven in the same
way, takes the place of the plain one; whom a gate refuses is counted and woken, asynchronous gates are asked in tasks,
and other threads' events are handed over to the thread of the event loop.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from anyio import create_task_group

from apf_middleware.config import Configuration
from apf_middleware.fairqueuing import Reason, Sharing, Ticket
from apf_middleware.gates import Asked, Check, Gate, GatedSharing, GateRequest, Gates, ParkedRequest, Passage
from apf_middleware.metrics.picture import GatePicture
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.alarm import Alarm, AnyAlarm
from apf_middleware.runtime.controller import Controller
from apf_middleware.runtime.level import LevelAtWork
from apf_middleware.runtime.log import tell
from apf_middleware.runtime.yaml_gates import adopt_gates, require_gates

if TYPE_CHECKING:
    from apf_middleware.runtime.destination import Destination

__all__ = ["GatedController", "control"]

_SECOND: Final = 10**9
_TELL_ERRORS_EVERY_NS: Final = 10 * _SECOND
_CHECKING: Final = "apf: ask an asynchronous gate"


class GatedController(Controller):
    """Levels of ``configuration`` at work with ``gates``, to which it adds those that the configuration has."""

    may_have_gates = True

    def __init__(
        self,
        configuration: Configuration,
        gates: Gates | None = None,
        *,
        now: Callable[[], int] = time.monotonic_ns,
        alarm: Callable[[Callable[[], None], Callable[[], int]], AnyAlarm] = Alarm,
    ) -> None:
        super().__init__(configuration, now=now, alarm=alarm)
        self.gates: Gates = Gates() if gates is None else gates
        self._plain = self._sharing
        keeper = self.gates.keeper
        adopt_gates(self.gates, (), configuration.server.gates)
        if gates is None:  # others may be added until the app has started
            require_gates(configuration, self.gates)
        self._gated = GatedSharing(self._plain, keeper, _describe, self._note_refused)
        self._sharing = self._gated  # type: ignore[assignment]
        self._gated.tell_waiting = self._note_waiting
        keeper.ask = self._ask
        keeper.calendar.chance = Random().random  # noqa: S311 - it spreads pauses and guards nothing
        keeper.note_error = self._note_error
        self._tell_errors_at = 0
        self._questions: set[asyncio.Task[None]] = set()  # or they might be forgotten before they end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._trio_token: Any = None
        self.gates.bind(self)

    @property
    def sharing(self) -> Sharing:
        return self._plain

    # What happens to requests

    def arrive(self, now: int, admission: Admission) -> None:
        if self._loop is None and self._trio_token is None:
            self._meet_loop()
        super().arrive(now, admission)
        self._ring_in_time()

    def abandon(self, admission: Admission, reason: Reason) -> None:
        passage = self.gates.keeper.passage(admission)
        super().abandon(admission, reason)
        if passage is not None and admission.reason is Reason.TIME_OUT:
            admission.refusal = passage.refusal
        self._ring_in_time()

    def release(self, admission: Admission, *, long_lived: bool = False) -> None:
        self._gated.is_early = long_lived and not _is_websocket(admission.destination)
        try:
            super().release(admission, long_lived=long_lived)
        finally:
            self._gated.is_early = False
        self._ring_in_time()

    def begin_answer(self, admission: Admission) -> None:
        """Its response has begun: some gates want no more of it."""
        now = self.now()
        self._wake(now, self._gated.release_leases(now, admission, early=True))
        self._ring_in_time()

    def end(self, admission: Admission) -> None:
        """It is over, though its seats were given back before."""
        now = self.now()
        self._wake(now, self._gated.release_leases(now, admission))
        self._ring_in_time()

    def holding(self, admission: Admission) -> ParkedRequest | None:
        """What keeps it waiting, if it is a gate."""
        return self.gates.holding(admission)

    def list_held(self) -> list[tuple[Admission, str | None, int, int, str]]:
        return [
            (ticket, None if slot is None else slot.gate.name, passage.parked_at, passage.number, passage.stage.value)
            for passage in self.gates.keeper
            if passage.is_parked and isinstance(ticket := passage.ticket, Admission)
            for slot in (passage.slot,)
        ]

    def picture_gates(self) -> tuple[GatePicture, ...]:
        return tuple(
            GatePicture(
                name=gate.name,
                parked=gate.parked,
                evaluations=dict(gate.tally.evaluations),
                events=gate.tally.events,
                rescues=gate.tally.rescues,
                rejected=gate.tally.rejected,
                waits=(tuple(gate.tally.wait_counts), gate.tally.wait_total),
            )
            for gate in self.gates.keeper.gates.values()
        )

    def _note_refused(self, now: int, passage: Passage, is_newcomer: bool) -> None:  # noqa: FBT001 - told by position
        """A gate has refused one; newcomers are counted where they arrive."""
        admission = passage.ticket
        if isinstance(admission, Admission):
            admission.refusal = passage.refusal
            if not is_newcomer:
                admission.destination.at_work.observe(now)
                self._count_left(admission)
                self._count_rejected(admission, now)
                if admission.waiter is not None:
                    admission.waiter.wake()

    def _note_waiting(self, ticket: Ticket) -> None:
        """It was let try and found no seats, as one may who has just come."""
        if self.reclaimer is not None and isinstance(ticket, Admission):
            self.reclaimer.claim(ticket.destination.at_work)

    # Time, and whoever isn't in the event loop

    def settle(self) -> None:
        """Something has happened to gates."""
        now = self.now()
        self._wake(now, self._gated.settle(now))
        self._ring_in_time()

    def tick(self) -> None:
        self.gates.read_inbox()
        super().tick()
        self._ring_in_time()

    def _ring_in_time(self) -> None:
        at = self._gated.keeper.calendar.next_at()
        if at is not None:
            self._alarm.ask(at)

    def _meet_loop(self) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            try:
                from trio.lowlevel import current_trio_token  # noqa: PLC0415 - whoever runs trio has it

                self._trio_token = current_trio_token()
            except (ImportError, RuntimeError):
                return

    def post(self) -> None:
        """From another thread: read what it has left, in the event loop's."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.tick)
        elif self._trio_token is not None:
            self._trio_token.run_sync_soon(self.tick, idempotent=True)

    # Asynchronous gates

    def _ask(self, now: int, check: Check) -> None:
        question = self._answer(now, check)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            from trio.lowlevel import spawn_system_task  # noqa: PLC0415 - whoever runs trio has it

            spawn_system_task(_waited_for, question, name=_CHECKING)
            return
        task = loop.create_task(question, name=_CHECKING)
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)

    async def _answer(self, now: int, check: Check) -> None:
        passage, need = check.passage, check.need
        answer: object
        try:
            answer = await need.gate.acquire(now, passage.request, need.key, need.cost)  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - whatever an app's gate raises
            answer = error
        now = self.now()
        self._wake(now, self._gated.conclude(now, check, answer))
        self._ring_in_time()

    def _note_error(self, gate: Gate, error: Exception) -> None:
        now = self.now()
        if now >= self._tell_errors_at:
            self._tell_errors_at = now + _TELL_ERRORS_EVERY_NS
            tell(logging.WARNING, "apf.gate-failed", gate=gate.name, on_error=gate.terms.on_error, error=repr(error))

    # Another configuration, and the end

    async def aclose(self) -> None:
        async with create_task_group() as tasks:
            for gate in list(self.gates.keeper.gates.values()):
                tasks.start_soon(self._close_gate, gate)

    async def _close_gate(self, gate: Gate) -> None:
        try:
            await gate.aclose()
        except Exception as error:  # noqa: BLE001 - whatever an app's gate raises
            tell(logging.WARNING, "apf.gate-failed", gate=gate.name, on_error="ignored", error=repr(error))

    def reconfigure(self, configuration: Configuration) -> None:
        require_gates(configuration, self.gates, (gate.name for gate in configuration.server.gates))
        before = self.configuration.server.gates
        super().reconfigure(configuration)
        adopt_gates(self.gates, before, configuration.server.gates)
        self.settle()

    def _waiting_at(self, at_work: LevelAtWork) -> list[Admission]:
        """Whom gates keep waiting wait, too."""
        parked = [passage.ticket for passage in self.gates.keeper if passage.is_parked]
        admissions = [ticket for ticket in parked if isinstance(ticket, Admission)]
        there = [admission for admission in admissions if admission.destination.at_work is at_work]
        return [*super()._waiting_at(at_work), *there]


def control(configuration: Configuration, gates: Gates | None = None, *, now: Callable[[], int]) -> Controller:
    """A controller with gates where there are any, and a plain one otherwise."""
    if gates is None and not configuration.has_gates:
        return Controller(configuration, now=now)
    return GatedController(configuration, gates, now=now)


async def _waited_for(question: Awaitable[None]) -> None:
    await question


def _is_websocket(destination: "Destination") -> bool:
    return destination.scope.get("type") == "websocket"


def _describe(ticket: Ticket) -> Asked | None:
    """What gates are told of a request."""
    if not isinstance(ticket, Admission):
        return None
    destination = ticket.destination
    at_work = destination.at_work
    if not destination.gates and not at_work.shared.settings.fifo:
        return None
    classification = destination.classification
    request = GateRequest(
        level=classification.level,
        schema=classification.schema,
        flow=classification.flow,
        seats=ticket.width,
        identity=destination.identity,
        digest=destination.digest,
        scope=destination.scope,
    )
    return Asked(request, destination.gates, at_work.wait_limit_ns)
