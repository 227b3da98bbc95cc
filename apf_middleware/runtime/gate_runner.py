"""Gates at work beside a controller: what they need of time, threads and event loops.

A server without gates has no runner, so that gates cost it nothing. With one, a gated sharing, driven in the same way,
takes the place of the plain one. Requests that a gate refuses are counted and woken, asynchronous gates are asked in
tasks, and events of other threads are handed over to the thread of the event loop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from anyio import create_task_group

from apf_middleware.fairqueuing import Sharing, Ticket
from apf_middleware.gates import Asked, Check, Gate, GatedSharing, GateRequest, Gates, ParkedRequest, Passage
from apf_middleware.metrics.reading import GateReading
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.alarm import AnyAlarm
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.log import log_event

if TYPE_CHECKING:
    from apf_middleware.runtime.admission import Destination

__all__ = ["GateRunner"]

_SECOND: Final = 10**9
_TELL_ERRORS_EVERY_NS: Final = 10 * _SECOND
_CHECKING: Final = "apf: ask an asynchronous gate"


class GateRunner:
    """Runs ``gates`` in front of the ``plain`` sharing; ``sharing`` is the two together.

    ``wake`` is called with requests that were seated, ``refuse`` with each one that a gate has refused and whether it
    has only just arrived, ``note_waiting`` with each one that has passed its gates and found no seats. ``alarm`` calls
    ``tick`` when a gate wants to be asked again.
    """

    def __init__(
        self,
        gates: Gates,
        plain: Sharing,
        *,
        now: Callable[[], int],
        alarm: AnyAlarm,
        tick: Callable[[], None],
        wake: Callable[[int, Iterable[Ticket]], None],
        refuse: Callable[[int, Admission, bool], None],
        note_waiting: Callable[[Ticket], None],
    ) -> None:
        self.gates: Gates = gates
        self.plain: Sharing = plain
        self.now = now
        self._alarm, self._tick = alarm, tick
        self._wake, self._refuse = wake, refuse
        keeper = gates.keeper
        self.sharing: GatedSharing = GatedSharing(plain, keeper, _describe, self._note_refused)
        self.sharing.tell_waiting = note_waiting
        self.sharing.tell_timed_out = _keep_refusal
        self.sharing.is_early = _is_early
        self.sharing.end_step = self._end_step
        keeper.ask = self._ask
        keeper.calendar.chance = Random().random  # noqa: S311 - it spreads pauses and guards nothing
        keeper.note_error = self._note_error
        self._tell_errors_at = 0
        self._questions: set[asyncio.Task[None]] = set()  # or they might be forgotten before they end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._trio_token: Any = None
        gates.bind(self)

    # What happens to requests

    def release_leases(self, admission: Admission, *, early: bool = False) -> None:
        """Take back the leases of a request; ``early`` those alone that end when its response begins."""
        now = self.now()
        self._wake(now, self.sharing.release_leases(now, admission, early=early))

    def _note_refused(self, now: int, passage: Passage, is_newcomer: bool) -> None:  # noqa: FBT001 - told by position
        admission = passage.ticket
        if isinstance(admission, Admission):
            admission.refusal = passage.refusal
            self._refuse(now, admission, is_newcomer)

    # Looking

    def holding(self, admission: Admission) -> ParkedRequest | None:
        """What keeps it waiting, if it is a gate."""
        return self.gates.holding(admission)

    def list_held(self) -> list[tuple[Admission, str | None, int, int, str]]:
        """Requests that gates keep waiting: by which gate, since when, under which number, and how."""
        return [
            (ticket, None if slot is None else slot.gate.name, passage.parked_at, passage.number, passage.stage.value)
            for passage in self.gates.keeper
            if passage.is_parked and isinstance(ticket := passage.ticket, Admission)
            for slot in (passage.slot,)
        ]

    def list_parked(self, runtime: LevelRuntime) -> list[Admission]:
        """Requests of one level that gates keep waiting."""
        parked = [passage.ticket for passage in self.gates.keeper if passage.is_parked]
        admissions = [ticket for ticket in parked if isinstance(ticket, Admission)]
        return [admission for admission in admissions if admission.destination.runtime is runtime]

    def reading(self) -> tuple[GateReading, ...]:
        """The gates, for metrics."""
        return tuple(
            GateReading(
                name=gate.name,
                parked=gate.parked,
                evaluations=dict(gate.tally.evaluations),
                events=gate.tally.events,
                rescues=gate.tally.rescues,
                rejected=gate.tally.rejected,
                waits=gate.tally.waits,
            )
            for gate in self.gates.keeper.gates.values()
        )

    # Time, and other threads

    def settle(self) -> None:
        """Something has happened to gates."""
        now = self.now()
        self._wake(now, self.sharing.settle(now))

    def _end_step(self) -> None:
        if self._loop is None and self._trio_token is None:
            self._meet_loop()
        at = self.gates.keeper.calendar.next_at()
        if at is not None:
            self._alarm.ask(at)

    def _meet_loop(self) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            try:
                from trio.lowlevel import current_trio_token  # noqa: PLC0415 - only an app on trio must have it

                self._trio_token = current_trio_token()
            except (ImportError, RuntimeError):
                return

    def post(self) -> None:
        """From another thread: read what it has left, in the event loop's."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tick)
        elif self._trio_token is not None:
            self._trio_token.run_sync_soon(self._tick, idempotent=True)

    # Asynchronous gates

    def _ask(self, now: int, check: Check) -> None:
        question = self._answer(now, check)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            from trio.lowlevel import spawn_system_task  # noqa: PLC0415 - only an app on trio must have it

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
        self._wake(now, self.sharing.conclude(now, check, answer))

    def _note_error(self, gate: Gate, error: Exception) -> None:
        now = self.now()
        if now >= self._tell_errors_at:
            self._tell_errors_at = now + _TELL_ERRORS_EVERY_NS
            log_event(
                logging.WARNING, "apf.gate-failed", gate=gate.name, on_error=gate.terms.on_error, error=repr(error)
            )

    # The end

    async def aclose(self) -> None:
        """Give back what gates hold elsewhere, for a bounded time."""
        async with create_task_group() as tasks:
            for gate in list(self.gates.keeper.gates.values()):
                tasks.start_soon(_close_gate, gate)

    def __repr__(self) -> str:
        return f"<GateRunner: {self.gates!r}>"


async def _close_gate(gate: Gate) -> None:
    try:
        await gate.aclose()
    except Exception as error:  # noqa: BLE001 - whatever an app's gate raises
        log_event(logging.WARNING, "apf.gate-failed", gate=gate.name, on_error="ignored", error=repr(error))


async def _waited_for(question: Awaitable[None]) -> None:
    await question


def _keep_refusal(passage: Passage) -> None:
    """Tell the client of a request whose time is up what its gate has said last."""
    if isinstance(passage.ticket, Admission):
        passage.ticket.refusal = passage.refusal


def _is_early(ticket: Ticket) -> bool:
    """Whether seats come back before the response has ended; a WebSocket's gates are passed once it is accepted."""
    if not isinstance(ticket, Admission) or ticket.stream is None or not ticket.stream.is_counted:
        return False
    destination: Destination = ticket.destination
    return destination.scope.get("type") != "websocket"


def _describe(ticket: Ticket) -> Asked | None:
    """What gates are told of a request."""
    if not isinstance(ticket, Admission):
        return None
    destination = ticket.destination
    runtime = destination.runtime
    if not destination.gates and not runtime.shared.settings.fifo:
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
    return Asked(request, destination.gates, runtime.wait_limit_ns)
