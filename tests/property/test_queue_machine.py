"""Random traffic and random administration of named queues: whatever happens, the promises hold.

The sharing itself has a twin (see `test_lending`). Here it is the book's turn: that counts add up to what really came,
that states are what they say, that no change ever touches who runs, and that nobody is passed over by a borrower.
"""

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apf_middleware.exceptions import QueueError
from apf_middleware.fairqueuing import Lending, Reason, SharedLevel
from apf_middleware.fairqueuing.sharing.balance import SEAT
from apf_middleware.runtime import Admission
from tests.support.examples import examples
from tests.support.named_queues import NamedQueueServer, level, server

pytestmark = pytest.mark.timeout(600)

_NAMES = ("a", "b", "c", "d", "p", "q")
_names = st.sampled_from(_NAMES)
_present = st.sampled_from(("a", "a", "b", "b", "d", "p"))  # most files have the first ones
_any = st.integers(0, 20)
_fields = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.integers(0, 5),
        "min": st.integers(0, 3),
        "max": st.none() | st.sampled_from((0, 1, 3, 6)),
        "parent": st.none() | st.sampled_from(("p", "q", "a")),
        "priority": st.integers(-1, 1),
    },
)

FILES = (
    server(9) + level("a", "minSeats: 2") + level("b", "minSeats: 0, maxSeats: 4"),
    server(9) + level("p", "maxSeats: 4") + level("a", "parent: p, minSeats: 1") + level("b", "parent: p"),
    server(5) + level("a", "minSeats: 0, state: Paused") + level("d", "weight: 3, priority: 1"),
    server(2) + level("a", "minSeats: 2") + level("b", "minSeats: 0"),  # which has no seats
)


class _Machine(RuleBasedStateMachine):
    @initialize(file=st.sampled_from(FILES), busy=st.sampled_from((0, 2, 4)))
    def open(self, file: str, busy: int) -> None:
        self.house = NamedQueueServer(file)
        self.admissions: list[Admission] = []
        self.came: Counter[int] = Counter()  # by generation
        for which in range(busy):
            self.arrive(which, 5, "x")

    def _running(self) -> list[Admission]:
        return [one for one in self.admissions if one.is_seated]

    def _waiting(self) -> list[Admission]:
        return [one for one in self.admissions if one.is_waiting]

    # Traffic

    @rule(which=_any, number=st.sampled_from((1, 1, 2, 5)), flow=st.sampled_from("xyz"))
    def arrive(self, which: int, number: int, flow: str) -> None:
        names = [one.name for one in self.house.queues.list() if not one.children and not one.exempt]
        name = names[which % len(names)]
        state = self.house.state(name)
        found = self.house.arrive(name, number, flow=flow)
        self.admissions += found
        self.came[self.house.controller.levels[name].generation] += number
        if state == "Paused":
            assert not any(one.is_seated for one in found)
        if state in {"Closing", "Closed"}:
            assert {one.reason for one in found} == {Reason(f"queue-{state.lower()}")}
        else:
            assert not {one.reason for one in found} & {Reason.QUEUE_CLOSED, Reason.QUEUE_CLOSING}
        self._check_guarantees([one for one in found if one.is_seated])

    def _check_guarantees(self, seated: list[Admission]) -> None:
        """Who was seated beyond all that is promised has left free what others are promised."""
        sharing = self.house.controller.sharing
        levels = [one for one in (*sharing.levels.values(), *sharing.draining) if not one.exempt]
        beyond = [
            one
            for one in {one.destination.runtime.shared for one in seated}
            if one.parent is None and one.queueset.seats_in_use > one.least
        ]
        if beyond:
            sharing.snapshot()  # which brings queue sets up to date
            alone = sum(max(0, one.least - one.queueset.seats_in_use) for one in levels if one.parent is None)
            children = {
                parent: sum(max(one.least, one.queueset.seats_in_use) for one in levels if one.parent is parent)
                for parent in sharing.parents.values()
            }
            unmet = alone + sum(
                max(total, parent.least) - sum(one.queueset.seats_in_use for one in levels if one.parent is parent)
                for parent, total in children.items()
            )
            used = sum(one.queueset.seats_in_use for one in levels)
            assert isinstance(sharing, Lending)
            assert sharing.ledger.total - used >= unmet

    @precondition(lambda self: self._running())
    @rule(which=_any, fails=st.booleans())
    def end(self, which: int, fails: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        running, before = self._running(), self._waiting()
        admission = running[which % len(running)]
        if fails:
            admission.fail()
        self.house.end(admission)
        self._check_turns([one for one in before if one.is_seated])

    def _check_turns(self, seated: list[Admission]) -> None:
        """No borrower was served while a queue a seat below its part waited that could have had the seat."""
        served = [(one.destination.runtime.shared, one.width) for one in seated]
        if not any((one.queueset.seats_in_use - width) * SEAT >= one.entitled for one, width in served):
            return
        for one in self.house.controller.levels.values():
            shared = one.shared
            used = shared.queueset.seats_in_use
            if shared.waits and used < min(shared.entitled // SEAT, shared.most):
                assert shared.parent is not None, f"{shared!r} was passed over"
                assert shared.parent.room_in_max(shared.counted) <= used, f"{shared!r} was passed over"

    @precondition(lambda self: self._waiting())
    @rule(which=_any, reason=st.sampled_from((Reason.TIME_OUT, Reason.CANCELLED)))
    def leave(self, which: int, reason: Reason) -> None:
        waiting = self._waiting()
        self.house.controller.abandon(waiting[which % len(waiting)], reason)
        self.house.check()

    # Administration: what can't be is refused, and nothing that runs is ever touched

    def _administer(self, change: Any) -> None:  # noqa: ANN401 - a call
        running = self._running()
        drift = self.house.queues.drift()
        try:
            change()
        except QueueError:
            assert self.house.queues.drift() == drift
        assert all(one.is_seated for one in running)
        self.house.check()

    @rule(name=_names, fields=_fields)
    def create(self, name: str, fields: dict[str, Any]) -> None:
        self._administer(lambda: self.house.queues.create(name, **fields))

    @rule(name=_present, fields=_fields)
    def update(self, name: str, fields: dict[str, Any]) -> None:
        self._administer(lambda: self.house.queues.update(name, **fields))

    @rule(
        which=_any,
        action=st.sampled_from(("open", "close", "close", "pause")),
        mode=st.sampled_from(("drain", "drain", "shed")),
    )
    def operate(self, which: int, action: str, mode: str) -> None:
        names = [one.name for one in self.house.queues.list() if one.name in _NAMES] or ["a"]
        self._administer(lambda: self.house.queues.operate(names[which % len(names)], action, mode=mode))

    @rule(name=_names, cascade=st.booleans())
    def delete(self, name: str, cascade: bool) -> None:  # noqa: FBT001 - as above
        self._administer(lambda: self.house.queues.delete(name, cascade=cascade))

    @rule(file=st.sampled_from(FILES))
    def reload(self, file: str) -> None:
        self._administer(lambda: self.house.reload(file))

    # Promises

    @invariant()
    def counts_and_states_are_what_they_say(self) -> None:
        for one in self.house.queues.list():
            if one.children:
                members = [self.house.queues.status(child) for child in one.children]
                assert one.used == sum(child.used for child in members)
                assert one.arrived == sum(child.arrived for child in members)
                continue
            here = [x for x in self.admissions if x.destination.runtime.generation == one.generation]
            assert one.arrived == self.came[one.generation]
            assert one.running == sum(x.is_seated for x in here)
            assert one.inqueue == sum(x.is_waiting for x in here)
            assert min(one.completed, one.failed, one.aborted) >= 0
            if one.state == "Closed":
                assert one.running == one.inqueue == one.used == 0
            if one.state == "Closing":
                assert one.running + one.inqueue > 0

    @invariant()
    def deserved_seats_add_up_to_no_more_than_there_are(self) -> None:
        found = self.house.queues.list()
        deserved = sum(one.deserved for one in found if one.parent is None)
        assert deserved <= self.house.configuration.server.total + 1e-9  # they are shares, and so floats

    def teardown(self) -> None:
        """When nobody runs, who waits is of a level to which the mins of others leave nothing, and has no other reason.

        When their time is up as well, nothing is left of anybody, nor of the levels that have gone.
        """
        if not hasattr(self, "house"):
            return
        for name in ("p", "q", *_NAMES):  # a child whose parent is closed can't be opened
            with suppress(QueueError):
                self.house.queues.operate(name, "open")
        assert not [one.name for one in self.house.queues.list() if one.state != "Open"]
        while self._running():
            self.house.end(self._running()[0])
        for one in self._waiting():
            level = one.destination.runtime.shared
            assert not self._could_have(level), f"{level!r} waits for nothing"
            self.house.controller.abandon(one, Reason.TIME_OUT)
            self.house.check()
        sharing = self.house.controller.sharing
        assert sharing.draining == []
        sharing.snapshot()  # which brings queue sets up to date
        assert all(level.is_idle for level in sharing.levels.values())

    def _could_have(self, level: SharedLevel) -> int:
        """Return the seats that are left to ``level`` when nothing runs, by the limits that its queue was given."""
        sharing = self.house.controller.sharing
        assert level in sharing.levels.values(), f"{level!r} has gone, and has a seat until it has drained"
        limited = [one for one in sharing.levels.values() if not one.exempt]
        promised = {
            parent: max(parent.limits.min, sum(one.limits.min for one in limited if one.parent is parent))
            for parent in sharing.parents.values()
        }
        mins = sum(one.limits.min for one in limited if one.parent is None) + sum(promised.values())
        spare = max(0, sharing.seats - mins)
        parent = level.parent
        if parent is None:
            return min(level.limits.max, spare + level.limits.min)
        within = max(promised[parent], min(parent.limits.max, spare + promised[parent]))
        siblings = sum(one.limits.min for one in limited if one.parent is parent and one is not level)
        return min(level.limits.max, within - siblings)


TestQueues = _Machine.TestCase
TestQueues.settings = examples(30, stateful_step_count=35)
