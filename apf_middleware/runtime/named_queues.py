"""The named queues of a live server: create, list, change, open, pause, close and delete them while requests run.

Every call is one step: it is checked as a whole, put in force between two steps of the event loop, and logged with the
name of the operator. A call that isn't possible changes nothing and raises a `QueueError`, whose ``kind`` says why. No
change ever ends a running request.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from apf_middleware.config import Configuration
from apf_middleware.config.formats.apf import level_document
from apf_middleware.config.formats.queuing import BACKFILL
from apf_middleware.config.level_conflicts import default_queue, find_conflicts
from apf_middleware.config.objects import Level, Queuing
from apf_middleware.exceptions import QueueConflictError, QueueInvalidError, QueueNotFoundError
from apf_middleware.fairqueuing import LevelShares, Reason
from apf_middleware.runtime.log import log_event
from apf_middleware.runtime.queues.fields import check_changes, check_name, with_changes
from apf_middleware.runtime.queues.live import Drift, LiveChanges
from apf_middleware.runtime.queues.states import ACTIONS, CLOSING_MODES, QueueAction, requested_state_of
from apf_middleware.runtime.queues.status import look_at_queues
from apf_middleware.snapshots import NamedQueueSnapshot, QueueState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apf_middleware.runtime.controller import Controller
    from apf_middleware.runtime.level import LevelRuntime

__all__ = ["NamedQueues"]

_MANDATORY: Final = frozenset({"exempt", "catch-all"})
_FIELDS: Final = {"minSeats": "min", "maxSeats": "max", "shares": "weight"}  # as the calls name them

M = TypeVar("M", bound=Callable[..., Any])


def _ignore(name: str, level: Level | None, sheds: bool) -> None:  # noqa: FBT001 - a callback
    """Ignore a change."""


def _in_event_loop(method: M) -> M:
    """Let the event loop run the method, from whichever thread it is called."""

    @wraps(method)
    def call(self: "NamedQueues", *given: Any, **named: Any) -> Any:  # noqa: ANN401 - the method's own are checked
        return self._controller.home.call(partial(method, self, *given, **named))

    return cast("M", call)


class NamedQueues:
    """The queues of ``controller``, for calls from any thread.

    ``put_in_force`` is called with each changed configuration; by default, only the controller adopts it. ``on_change``
    is called after each change of an operator here: with the queue's name, the changed queue or None if it is deleted,
    and whether waiting requests have been rejected. ``files`` is the configuration as it was read, and ``changes`` are
    the live changes to it.
    """

    def __init__(
        self,
        controller: "Controller",
        put_in_force: Callable[[Configuration], None] | None = None,
        on_change: Callable[[str, Level | None, bool], None] = _ignore,
    ) -> None:
        self._controller = controller
        self._put_in_force = controller.reconfigure if put_in_force is None else put_in_force
        self._on_change = on_change
        self._followed: set[str] = set()  # queues whose last change came from another member of the fleet
        self.files: Configuration = controller.configuration
        self.changes: LiveChanges = LiveChanges()

    # Looking

    @_in_event_loop
    def list(self) -> tuple[NamedQueueSnapshot, ...]:
        """Return all queues, each parent before its children."""
        self._controller.look(self._controller.now())
        return tuple(look_at_queues(self._controller.registry, self.changes.entries))

    @_in_event_loop
    def status(self, name: str) -> NamedQueueSnapshot:
        """Return the status of one queue."""
        self._level(name)
        return next(one for one in self.list() if one.name == name)

    def document(self, name: str) -> tuple[dict[str, Any], ...]:
        """Return the documents to write into a file so that it defines the queue as it is now."""
        return (level_document(self._level(name)),)

    def drift(self) -> tuple[Drift, ...]:
        """Return the differences of the live server from its files."""
        return self.changes.drift()

    # Changing

    @_in_event_loop
    def create(
        self,
        name: str,
        *,
        weight: int = 1,
        queuing: Queuing | None = None,
        by: str = "",
        **fields: Any,  # noqa: ANN401 - each is checked by its name
    ) -> NamedQueueSnapshot:
        """Create an open queue, with a ``min`` of 0 and no ``max`` unless they are given; fields as in `update`."""
        known = self._levels.get(name)
        if known is not None and name not in self._followed:
            raise QueueConflictError(name, "there is a queue of this name already", "Update it, or take another name")
        check_name(name)
        given = {"min": 0, "weight": weight} | fields
        check_changes(name, given)
        level = Level(name, LevelShares(1), Queuing(backfill=BACKFILL) if queuing is None else queuing)
        created = with_changes(level, given)
        if known is not None and known != created:
            raise QueueConflictError(name, "another member of the fleet has created it otherwise", "Update it")
        self._operate(name, created)
        self._log("created", name, by, given)
        return self.status(name)

    @_in_event_loop
    def update(self, name: str, *, by: str = "", **changes: Any) -> NamedQueueSnapshot:  # noqa: ANN401 - as above
        """Change fields of a queue, in any state; None as ``max`` or ``parent`` means that there is none.

        The fields are ``weight``, ``min``, ``max``, ``parent``, ``priority``, ``reclaimable``, ``dequeue_strategy`` and
        ``wait_limit_ns``.
        """
        level = self._level(name)
        if level.exempt:
            raise QueueConflictError(name, "an exempt level isn't limited, so there is nothing to change")
        check_changes(name, changes)
        self._operate(name, with_changes(level, changes))
        self._log("updated", name, by, changes)
        return self.status(name)

    @_in_event_loop
    def operate(self, name: str, action: str, *, mode: str = "drain", by: str = "") -> NamedQueueSnapshot:
        """Open, close or pause a queue; for a parent, this applies to its children.

        Requests that wait in a queue that closes are served (``drain``) or rejected at once (``shed``).
        """
        level = self._level(name)
        if action not in ACTIONS:
            raise QueueInvalidError(name, (("action", action, f"it must be one of {', '.join(ACTIONS)}"),))
        if mode not in CLOSING_MODES:
            raise QueueInvalidError(name, (("mode", mode, f"it must be one of {', '.join(CLOSING_MODES)}"),))
        if level.exempt:
            raise QueueConflictError(name, "an exempt level is always open")
        requested = QueueAction(action).requested
        parent = self._levels.get(level.parent or "")
        # A state that the parent overrules would be stored without having an effect.
        if parent is not None and requested != requested_state_of(replace(level, state=requested), parent):
            raise QueueConflictError(name, f"its parent {parent.name!r} is {parent.state}", "Open the parent")
        self._operate(name, replace(level, state=requested), sheds=requested == "closed" and mode == "shed")
        self._log("operated", name, by, {"action": action, "mode": mode})
        return self.status(name)

    @_in_event_loop
    def delete(self, name: str, *, cascade: bool = False, by: str = "") -> None:
        """Delete a queue that is closed.

        With ``cascade``, a queue in any state is deleted, and its children too: waiting requests are rejected, and
        running ones finish. These are counted for the old queue, even if a new one gets its name.
        """
        if name in self._followed and name not in self._levels:
            return  # the same operator has deleted it at another member
        level = self._level(name)
        status = self.status(name)
        if level.exempt or name in _MANDATORY:
            raise QueueConflictError(name, "mandatory and exempt levels can't be deleted")
        if name in {default_queue(self._controller.configuration), self._controller.configuration.fallback.level}:
            raise QueueConflictError(name, "it is the default queue, for requests that no other queue takes")
        if not cascade and status.children:
            raise QueueConflictError(name, f"it has children: {', '.join(status.children)}", "Delete them, or cascade")
        if not cascade and status.state is not QueueState.CLOSED:
            raise QueueConflictError(name, f"it is {status.state}", "Close it and wait until it is Closed, or cascade")
        self._delete(name, status.children)
        for gone in (*status.children, name):
            self._on_change(gone, None, True)  # noqa: FBT003 - waiting requests are rejected
        self._log("deleted", name, by, {"cascade": cascade})

    def follow(self, name: str, level: Level | None, *, sheds: bool) -> None:
        """Change a queue as at another member of the fleet: to ``level``, or delete it if that is None."""
        if level is not None:
            self._change(name, level, sheds=sheds)
        elif name in self._levels:
            self._delete(name, self.status(name).children)
        self._followed.add(name)
        self._log("followed", name, "", {"state": "deleted" if level is None else level.state})

    # Files

    def reload(self, files: Configuration) -> Configuration:
        """Return the configuration to use after ``files`` have been read again: with the valid live changes."""
        return self.changes.still(files).over(files)

    def note_in_force(self, files: Configuration) -> None:
        """Note that the configuration that `reload` returned for ``files`` is in force."""
        before, self.changes, self.files = self.changes, self.changes.still(files), files
        for name in sorted(before.entries.keys() - self.changes.entries.keys()):
            log_event(logging.INFO, "apf.queue-change-ended", queue=name, reason="the files changed, or say the same")

    # Steps

    @property
    def _levels(self) -> "dict[str, Level]":
        return dict(self._controller.configuration.levels)

    def _level(self, name: str) -> Level:
        level = self._controller.configuration.levels.get(name)
        if level is None:
            raise QueueNotFoundError(name, "there is no such queue")
        return level

    def _working(self, name: str) -> "tuple[LevelRuntime, ...]":
        """Return the levels that the requests of this queue are in: itself, or its children."""
        levels = self._controller.levels
        names = [one.name for one in self._levels.values() if one.parent == name] or [name]
        return tuple(levels[one] for one in names if one in levels)

    def _operate(self, name: str, level: Level, *, sheds: bool = False) -> None:
        """Change a queue for an operator."""
        self._followed.discard(name)
        self._change(name, level, sheds=sheds)
        self._on_change(name, level, sheds)

    def _change(self, name: str, level: Level, *, sheds: bool) -> None:
        changes = self.changes.changed(self.files, name, level)
        self._require_sound(name, changes)
        self._adopt(changes)
        if sheds:
            for runtime in self._working(name):
                self._controller.shed(runtime, Reason.QUEUE_CLOSING)

    def _delete(self, name: str, children: "Iterable[str]") -> None:
        changes = self.changes
        for gone in (*children, name):
            changes = changes.changed(self.files, gone, None)
        self._require_sound(name, changes)
        working = self._working(name)
        # Set before the levels change: then none of the waiting requests is seated when the levels begin to drain, and
        # the levels aren't revived when their names come back.
        for runtime in working:
            runtime.shared.is_over = True
        try:
            self._adopt(changes)
        except BaseException:
            for runtime in working:
                runtime.shared.is_over = False
            raise
        for runtime in working:
            self._controller.shed(runtime, Reason.QUEUE_CLOSED)

    def _require_sound(self, name: str, changes: LiveChanges) -> None:
        if self._controller.is_in_step:
            hint = "Change it after the gate has answered, for example by `loop.call_soon`"
            raise QueueConflictError(name, "a gate can't change queues while it is asked", hint)
        conflicts = list(find_conflicts(changes.over(self.files)))
        if conflicts:
            problems = [
                (
                    _FIELDS.get(conflict.field, conflict.field),
                    conflict.value,
                    conflict.rule if conflict.queue == name else f"in {conflict.queue!r} {conflict.rule}",
                )
                for conflict in conflicts
            ]
            raise QueueInvalidError(name, tuple(problems))

    def _adopt(self, changes: LiveChanges) -> None:
        before, self.changes = self.changes, changes
        try:
            self._put_in_force(changes.over(self.files))
        except BaseException:
            self.changes = before
            raise

    @staticmethod
    def _log(what: str, name: str, by: str, fields: "dict[str, object]") -> None:
        log_event(logging.INFO, f"apf.queue-{what}", queue=name, by=by or "-", **fields)

    def __repr__(self) -> str:
        return (
            f"<NamedQueues of {len(self._controller.configuration.levels)} queues, {len(self.changes.entries)} changed>"
        )
