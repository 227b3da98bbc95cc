"""Replay of a recorded trace through a queue set, and comparison with the recorded results.

Rows are compared to the last digit, meters included; so are the summary and the final state, if the file has them.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from apf_middleware.exceptions import TraceFormatError
from apf_middleware.fairqueuing import QueueSet, Reason
from apf_middleware.fairqueuing.disciplines.upstream_equal_serial import UpstreamEqualSerial, UpstreamEqualSerialQueue
from apf_middleware.testing.trace import FORMAT, Arrival, Cancellation, Event, Trace
from apf_middleware.testing.virtual_time import Call, Rank, World

__all__ = ["Difference", "Replay", "Row", "replay"]


@dataclass(slots=True)
class Row:
    """The outcome of one arrival. Columns of a trace have these names; fields that don't apply are None."""

    id: int
    queue: int | None = None
    status: str | None = None
    reason: str | None = None
    dispatch_seq: int | None = None
    dispatch_ns: int | None = None
    finish_ns: int | None = None
    release_ns: int | None = None
    final_seats: int | None = None
    additional_latency_ns: int | None = None
    arrival_r: int | None = None
    start_r: int | None = None
    dispatch_r: int | None = None


COLUMNS: Final = tuple(Row.__slots__)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a replay differs from the recorded results."""

    place: str
    expected: object
    got: object

    def __str__(self) -> str:
        return f"{self.place}: expected {self.expected!r}, got {self.got!r}"


def replay(trace: Trace, *, strict_upstream: bool = False) -> "Replay":
    """Run a trace to its end, and return the replay."""
    run = Replay(trace, strict_upstream=strict_upstream)
    run.world.run()
    return run


class Replay:
    """A run of one trace."""

    def __init__(self, trace: Trace, *, strict_upstream: bool) -> None:
        self.trace = trace
        self.discipline: UpstreamEqualSerial = UpstreamEqualSerial(
            trace.settings.concurrency, trace.guess_ns, initial_r=trace.initial_r
        )
        self.queueset: QueueSet = QueueSet(
            trace.settings,
            discipline=lambda _concurrency, _guess_ns: self.discipline,
            guess_ns=trace.guess_ns,
            strict_upstream=strict_upstream,
        )
        self.world: World = World(self.queueset)
        self.rows: dict[int, Row] = {}
        self._calls: dict[int, Call] = {}
        self._dispatched = 0
        self._most_waiting = self._most_seats = 0
        for event in trace.events:
            self._schedule(event)

    def _schedule(self, event: Event) -> None:
        world = self.world
        if isinstance(event, Arrival):
            world.at(event.time, partial(self._arrive, event), Rank.ARRIVE)
        elif isinstance(event, Cancellation):
            world.at(event.time, partial(self._cancel, event.id), Rank.ABANDON)
        else:
            world.reconfigure_at(event.time, event.settings)

    def _arrive(self, event: Arrival) -> None:
        row = self.rows[event.id] = Row(event.id)
        call = Call(
            event.flow,
            event.entropy,
            event.work,
            event.duration_ns,
            on_seated=partial(self._seated, row),
            on_finish=partial(self._finished, row),
            on_vacated=partial(self._vacated, row),
        )
        self._calls[event.id] = call
        self.world.arrive(call)
        row.queue = call.queue.index if call.queue is not None else None
        if call.is_rejected:
            row.status, row.reason = "rejected", str(call.reason)
        else:
            row.arrival_r = self.discipline.current_r
        self._look()

    def _cancel(self, number: int) -> None:
        call, row = self._calls[number], self.rows[number]
        if call.is_waiting:
            self.world.abandon(call, Reason.TIME_OUT)
            row.status, row.reason, row.finish_ns = "cancelled", str(call.reason), self.world.now
        self._look()

    def _seated(self, row: Row, call: Call) -> None:
        row.status = "executed"
        row.dispatch_seq, row.dispatch_ns = self._dispatched, self.world.now
        row.final_seats, row.additional_latency_ns = call.work.final_seats, call.work.linger_ns
        row.start_r = self.discipline.as_upstream(call.start_r) if call.queue is not None else None
        row.dispatch_r = self.discipline.current_r
        self._dispatched += 1

    def _finished(self, row: Row, call: Call) -> None:
        row.finish_ns = call.finished_at
        self._look()

    def _vacated(self, row: Row, call: Call) -> None:
        row.release_ns = call.released_at
        self._look()

    def _look(self) -> None:
        self._most_waiting = max(self._most_waiting, self.queueset.waiting)
        self._most_seats = max(self._most_seats, self.queueset.seats_in_use)

    def summary(self) -> dict[str, int]:
        """Return counts and extremes of the whole run."""
        rows = self.rows.values()
        waits = [row.dispatch_ns - self._calls[row.id].arrived_at for row in rows if row.dispatch_ns is not None]
        return {
            "requests": len(rows),
            "executed": sum(row.status == "executed" for row in rows),
            "rejected": sum(row.status == "rejected" for row in rows),
            "cancelled": sum(row.status == "cancelled" for row in rows),
            "executed_after_waiting": sum(wait > 0 for wait in waits),
            "max_wait_ns": max(waits, default=0),
            "end_ns": self.world.now,
            "max_requests_waiting": self._most_waiting,
            "max_seats_in_use": self._most_seats,
            "never_run": sum(row.status is None for row in rows),
        }

    def final_state(self) -> dict[str, Any]:
        """Return the queue set after the last event, in upstream's terms."""
        queueset, discipline = self.queueset, self.discipline
        queues = [queue for queue in queueset.deck if isinstance(queue, UpstreamEqualSerialQueue)]
        cancelled = queueset.rejected[Reason.TIME_OUT] + queueset.rejected[Reason.CANCELLED]
        return {
            "current_r": discipline.current_r,
            "robin_index": discipline.robin_index,
            "enqueues": queueset.deck.choices,
            "next_dispatch_r": [discipline.as_upstream(queue.next_dispatch_r) for queue in queues],
            "waiting": queueset.waiting,
            "executing": queueset.executing,
            "seats_in_use": queueset.seats_in_use,
            "tot_rejected": sum(queueset.rejected.values()),
            "tot_cancelled": cancelled,
        }

    def first_difference(self) -> Difference | None:
        """Return the first difference of this run from the recorded results; None without a difference or results."""
        return self._row_that_differs() or self._total_that_differs()

    def _row_that_differs(self) -> Difference | None:
        columns, recorded = self.trace.columns, self.trace.rows
        if not columns:
            return None
        if unknown := [column for column in columns if column not in COLUMNS]:
            raise TraceFormatError(f"results.columns has {unknown}, but the known columns are {list(COLUMNS)}")
        rows = list(self.rows.values())
        if len(rows) != len(recorded):
            return Difference("number of rows", len(recorded), len(rows))
        for expected, row in zip(recorded, rows, strict=True):
            for column, value in zip(columns, expected, strict=True):
                got = getattr(row, column)
                if value != got or type(value) is not type(got):
                    return Difference(f"row of id {row.id}, {column}", value, got)
        return None

    def _total_that_differs(self) -> Difference | None:
        ours = {"summary": self.summary(), "final_state": self.final_state()}
        if self.discipline.epochs:  # upstream then sets the meters of idle queues to 0, but never reads them
            del ours["final_state"]["next_dispatch_r"]
        for part, values in ours.items():
            recorded = self.trace.document.get(part) or {}
            for name, got in values.items():
                if name in recorded and recorded[name] != got:
                    return Difference(f"{part}.{name}", recorded[name], got)
        return None

    def document(self) -> dict[str, Any]:
        """Return the trace with this run's results, in the format it was read from."""
        rows = [[getattr(row, column) for column in COLUMNS] for row in self.rows.values()]
        return {
            **self.trace.document,
            "format": FORMAT,
            "results": {"columns": list(COLUMNS), "rows": rows},
            "summary": self.summary(),
            "final_state": self.final_state(),
        }
