"""Gates at run time: their clock, timers, tasks and threads.

A server without gates has no runner, so gates cost it nothing. With a runner, a gated sharing takes the place of the
plain one; callers use both in the same way. Requests that a gate refuses are counted and woken, asynchronous gates are
asked in tasks, and events of other threads are handed over to the event loop's thread.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context
from random import Random
from typing import Final, TypeVar

from anyio import create_task_group

from apf_middleware.fairqueuing import Sharing, Ticket
from apf_middleware.gates import (
    Acquisition,
    Check,
    Gate,
    GatedSharing,
    GateHooks,
    GateRequest,
    GateRequirements,
    Gates,
)
from apf_middleware.metrics.reading import GateReading
from apf_middleware.runtime.admission import Admission
from apf_middleware.runtime.alarm import AnyAlarm
from apf_middleware.runtime.event_loop import HomeLoop
from apf_middleware.runtime.level import LevelRuntime
from apf_middleware.runtime.log import log_event

__all__ = ["GateRunner"]

_SECOND: Final = 10**9
_LOG_ERRORS_EVERY_NS: Final = 10 * _SECOND
_LAST_ANSWERS_S: Final = 2.0  # how long the server's stop waits for gates that have been asked
_CHECKING: Final = "apf: ask an asynchronous gate"

T = TypeVar("T")


class GateRunner:
    """Runs ``gates`` in front of the ``plain`` sharing; ``sharing`` is both together.

    ``wake`` is called with requests that were seated; ``refuse`` with each one that a gate has refused, and with True
    if it has only just arrived; ``note_waiting`` with each one that was put back into its queue and found no seats.
    ``alarm`` calls ``tick`` when a gate has to be asked again.
    """

    def __init__(
        self,
        gates: Gates,
        plain: Sharing,
        *,
        home: HomeLoop,
        now: Callable[[], int],
        alarm: AnyAlarm,
        tick: Callable[[], None],
        wake: Callable[[int, Iterable[Ticket]], None],
        refuse: Callable[[int, Admission, bool], None],
        note_waiting: Callable[[Ticket], None],
    ) -> None:
        self.gates: Gates = gates
        self.now = now
        self._home, self._alarm, self._tick = home, alarm, tick
        self._wake, self._refuse = wake, refuse
        hooks = GateHooks(
            refused=self._note_refused,
            waiting=note_waiting,
            timed_out=_keep_refusal,
            failed=self._log_error,
            ask=self._ask,
            end_step=self._end_step,
        )
        self.sharing: GatedSharing = GatedSharing(plain, gates.scheduler, _requirements, hooks, is_early=_is_early)
        self.chance: Callable[[], float] = Random().random  # noqa: S311 - for the jitter of pauses, not for security
        self._log_errors_at: dict[str, int] = {}  # by the names of gates, so that none hides another
        self._questions: set[asyncio.Task[None]] = set()  # a loop has only weak references to its tasks
        gates.bind(self)

    # What happens to requests

    def release_leases(self, admission: Admission, *, early: bool = False) -> None:
        """Take back the leases of a request; if ``early``, only those that end when its response begins."""
        now = self.now()
        self._wake(now, self.sharing.release_leases(now, admission, early=early))

    def _note_refused(self, now: int, acquisition: Acquisition, is_newcomer: bool) -> None:  # noqa: FBT001 - passed by position
        admission = acquisition.ticket
        if isinstance(admission, Admission):
            admission.refusal = acquisition.refusal
            self._refuse(now, admission, is_newcomer)

    # Looking

    def list_held(self) -> list[tuple[Admission, str | None, int, int, str]]:
        """Return the parked requests, each with its gate, the time since which it waits, its number and its stage."""
        return [
            (ticket, None if one.slot is None else one.slot.gate.name, one.parked_at, one.number, one.stage.value)
            for one in self.gates.scheduler
            if one.is_parked and isinstance(ticket := one.ticket, Admission)
        ]

    def list_parked(self, runtime: LevelRuntime) -> list[Admission]:
        """Return the requests of one level that gates keep waiting."""
        parked = [one.ticket for one in self.gates.scheduler if one.is_parked]
        admissions = [ticket for ticket in parked if isinstance(ticket, Admission)]
        return [admission for admission in admissions if admission.destination.runtime is runtime]

    def reading(self) -> tuple[GateReading, ...]:
        """Return the state of the gates, for metrics."""
        return tuple(
            GateReading(
                name=gate.name,
                parked=gate.parked,
                evaluations=dict(gate.counters.evaluations),
                events=gate.counters.events,
                rescues=gate.counters.rescues,
                rejected=gate.counters.rejected,
                waits=gate.counters.waits,
                is_held=gate.is_closed,
            )
            for gate in self.gates.scheduler.gates.values()
        )

    # Time, and other threads

    def settle(self) -> None:
        """Let those requests try for which something may have changed."""
        now = self.now()
        self._wake(now, self.sharing.settle(now))

    def _end_step(self) -> None:
        # Test clients may run each request on a separate loop. Events of threads go to the loop of the last step.
        self._home.find()
        at = self.gates.scheduler.timers.next_at()
        if at is not None:
            self._alarm.ask(at)

    def post(self) -> None:
        """Let the event loop's thread read the events that other threads have emitted."""
        self._home.post(self._tick)  # before the first request none is parked, so no event can help one

    def is_elsewhere(self) -> bool:
        """Return whether the caller's thread, in which no event loop runs, is not that of the requests."""
        return self._home.is_elsewhere()

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of ``function``, which is called in the thread of the event loop."""
        return self._home.call(function)

    # Asynchronous gates

    def _ask(self, now: int, check: Check) -> None:
        question = self._answer(now, check)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            from trio.lowlevel import spawn_system_task  # noqa: PLC0415 - only an app on trio must have it

            spawn_system_task(_wait_for, question, name=_CHECKING)
            return
        # Not in the context of the request that is being served: it needn't be the one for which the gate is asked. And
        # not by `create_task`, because an eager task factory would run the gate, and perhaps conclude, in this step.
        task = asyncio.Task(question, loop=loop, name=_CHECKING, context=Context())
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)

    async def _answer(self, now: int, check: Check) -> None:
        need = check.need
        answer: object
        try:
            answer = await need.gate.acquire_later(now, check.acquisition.request, need.key, need.cost)
        except asyncio.CancelledError as error:  # of something that the gate has awaited, unless of this task
            if _is_being_cancelled():
                raise
            answer = error
        except Exception as error:  # noqa: BLE001 - an app's gate may raise anything
            answer = error
        now = self.now()
        self._wake(now, self.sharing.conclude(now, check, answer))

    def _log_error(self, gate: Gate, error: BaseException) -> None:
        now = self.now()
        if now >= self._log_errors_at.get(gate.name, now):
            self._log_errors_at[gate.name] = now + _LOG_ERRORS_EVERY_NS
            log_event(
                logging.WARNING, "apf.gate-failed", gate=gate.name, on_error=gate.terms.on_error, error=repr(error)
            )

    # The end

    async def aclose(self) -> None:
        """Give back, within a bounded time, what gates hold in other systems."""
        # The answer to a question may be a lease, which the gate can give back only until it is closed.
        pending = {task for task in self._questions if task.get_loop() is asyncio.get_running_loop()}
        if pending:
            await asyncio.wait(pending, timeout=_LAST_ANSWERS_S)
        async with create_task_group() as tasks:
            for gate in list(self.gates.scheduler.gates.values()):
                tasks.start_soon(_close_gate, gate)

    def __repr__(self) -> str:
        return f"<GateRunner: {self.gates!r}>"


async def _close_gate(gate: Gate) -> None:
    try:
        await gate.aclose()
    except Exception as error:  # noqa: BLE001 - an app's gate may raise anything
        log_event(logging.WARNING, "apf.gate-failed", gate=gate.name, on_error="ignored", error=repr(error))


def _is_being_cancelled() -> bool:
    """Return whether the running task is being cancelled; False on trio."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


async def _wait_for(question: Awaitable[None]) -> None:
    await question


def _keep_refusal(acquisition: Acquisition) -> None:
    """Keep the refusal of a request that has reached its wait limit, for its response."""
    if isinstance(acquisition.ticket, Admission):
        acquisition.ticket.refusal = acquisition.refusal


def _is_early(ticket: Ticket) -> bool:
    """Return whether the response continues after its seats are released; False for a WebSocket.

    A WebSocket passes its gates only to be accepted, so its leases end with its seats.
    """
    if not isinstance(ticket, Admission) or ticket.stream is None or not ticket.stream.is_counted:
        return False
    _, scope = ticket.shown
    return scope.get("type") != "websocket"


def _requirements(ticket: Ticket) -> GateRequirements | None:
    """Return the requirements of a request for gates; None if it has no gates to pass."""
    if not isinstance(ticket, Admission):
        return None
    destination = ticket.destination
    runtime = destination.runtime
    # In a ``fifo`` level a request without gates must not overtake a parked one, so it is announced as well.
    if not destination.gates and not runtime.shared.settings.fifo:
        return None
    classification, (digest, scope) = destination.classification, ticket.shown
    request = GateRequest(
        level=classification.level,
        schema=classification.schema,
        flow=classification.flow,
        seats=ticket.width,
        identity=destination.identity,
        digest=digest,
        scope=scope,
        route=destination.route,
    )
    return GateRequirements(request, destination.gates, runtime.wait_limit_ns)
