"""Whatever happens to a queue set, in whatever order: the twin agrees, the sums add up, and nobody stands for nothing.

Hypothesis draws the steps. After each one everything that can be seen is compared with the plain twin (`Twins`), and
the invariants below are checked on our queue set alone, from the outside.
"""

from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apf_middleware.fairqueuing import QueueSetSettings, Reason, TicketState, Work
from apf_middleware.fairqueuing.disciplines.upstream_equal_serial import UpstreamEqualSerialQueue
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.examples import examples
from tests.support.queueset_twin import HIGH_R, Twins

# It takes seconds, but when a step fails hypothesis looks for a shorter way there, for a minute or more.
pytestmark = pytest.mark.timeout(600)

_MS = 10**6

_entropies = st.sampled_from((0, 1, 2, 5, 719, 2**63 + 5, 2**64 - 1))  # few, so that flows come back
_guesses = st.sampled_from((3 * _MS, 3 * _MS, 1, 60_000 * _MS))
_durations = st.sampled_from((0, 1, 7, _MS, 3 * _MS, 10 * _MS, 1000 * _MS, 3600 * 1000 * _MS)) | st.integers(0, 10**10)
_lingers = st.sampled_from((0, 1, 2 * _MS + 1, 2 * _MS + 1, 500 * _MS))  # odd, so that a cut one has to be rounded
_seats = st.sampled_from((1, 1, 1, 1, 2, 2, 3, 5, 12))
_works = st.builds(Work, _seats) | st.builds(Work, _seats, _seats | st.just(0), _lingers)
_weights = st.sampled_from((WEIGHT_ONE, WEIGHT_ONE, 3 * WEIGHT_ONE, WEIGHT_ONE // 7))
_concurrencies = st.sampled_from((4, 6, 3, 8, 2, 1, 0))
_reasons = st.sampled_from((Reason.TIME_OUT, Reason.CANCELLED))
_pauses = st.sampled_from((0, 0, 0, 0, 0, 1, _MS, 600 * _MS))  # before a call, which then comes late for some lingers
_any = st.sampled_from((0, 0, 1, 2, 5))  # one of those there, counted round from the oldest


@st.composite
def _queued(draw: st.DrawFn) -> QueueSetSettings:
    queues = draw(st.sampled_from((1, 2, 3, 5, 8)))
    hand_size = draw(st.integers(1, min(queues, 4)))
    return QueueSetSettings(
        draw(_concurrencies),
        queues,
        hand_size,
        queue_length_limit=draw(st.sampled_from((1, 2, 5))),
        backfill=draw(st.sampled_from((0, 0, 1, 2, 5))),
    )


_queueless = st.builds(QueueSetSettings.without_queues, _concurrencies)
_exempt = st.builds(QueueSetSettings.without_limit, _concurrencies)


class _Machine(RuleBasedStateMachine):
    """Steps and invariants; the kind of level is the subclass's."""

    first_settings: ClassVar[st.SearchStrategy[QueueSetSettings]]
    other_settings: ClassVar[st.SearchStrategy[QueueSetSettings]]
    twins: Twins

    @initialize(data=st.data(), guess_ns=_guesses, initial_r=st.sampled_from((0, 0, HIGH_R - _MS)))
    def open(self, data: st.DataObject, guess_ns: int, initial_r: int) -> None:
        self.twins = Twins(data.draw(self.first_settings), guess_ns=guess_ns, initial_r=initial_r)

    def _one_that_is(self, state: TicketState, which: int) -> int:
        numbers = self.twins.numbers(state)
        return numbers[which % len(numbers)]

    def _somebody_is(self, state: TicketState) -> bool:
        return bool(self.twins.numbers(state))

    # Steps

    @rule(pause=_pauses, entropy=_entropies, work=_works, weight=_weights)
    def arrive(self, pause: int, entropy: int, work: Work, weight: int) -> None:
        """Kubernetes' rules don't know weights, so these make no difference."""
        self.twins.now += pause
        self.twins.arrive(entropy, work, weight)

    @rule(entropy=_entropies, work=_works, times=st.integers(2, 8))
    def arrive_in_a_burst(self, entropy: int, work: Work, times: int) -> None:
        for _ in range(times):
            self.twins.arrive(entropy, work)

    @precondition(lambda self: self._somebody_is(TicketState.WAITING))
    @rule(pause=_pauses, which=_any, reason=_reasons)
    def abandon(self, pause: int, which: int, reason: Reason) -> None:
        self.twins.now += pause
        self.twins.abandon(self._one_that_is(TicketState.WAITING, which), reason)

    @precondition(lambda self: self._somebody_is(TicketState.WAITING))
    @rule(which=st.lists(_any, min_size=1, max_size=5), pause=_pauses)
    def abandon_several(self, which: list[int], pause: int) -> None:
        self.twins.now += pause
        for one in which:
            if self._somebody_is(TicketState.WAITING):
                self.twins.abandon(self._one_that_is(TicketState.WAITING, one), Reason.TIME_OUT)

    @precondition(lambda self: self._somebody_is(TicketState.SEATED))
    @rule(pause=_pauses, which=_any)
    def release(self, pause: int, which: int) -> None:
        self.twins.now += pause
        self.twins.release(self._one_that_is(TicketState.SEATED, which))

    @precondition(lambda self: self._somebody_is(TicketState.SEATED))
    @rule(lasting=_durations)
    def run_and_release_all(self, lasting: int) -> None:
        self.twins.now += lasting
        for number in self.twins.numbers(TicketState.SEATED):
            self.twins.release(number)

    @rule(elapsed=_durations)
    def let_time_pass(self, elapsed: int) -> None:
        """Nothing is called meanwhile: what comes next may be late for several lingers."""
        self.twins.now += elapsed

    @rule()
    def tick(self) -> None:
        self.twins.tick()

    @precondition(lambda self: self._somebody_is(TicketState.LINGERING))
    @rule(late=st.sampled_from((-1, 0, 0, 1)))
    def tick_about_when_a_linger_ends(self, late: int) -> None:
        due = self.twins.queueset.next_event_at()
        assert due is not None
        self.twins.now = max(self.twins.now, due + late)
        self.twins.tick()

    @rule(pause=_pauses, data=st.data())
    def reconfigure(self, pause: int, data: st.DataObject) -> None:
        self.twins.now += pause
        self.twins.reconfigure(data.draw(self.other_settings))

    @rule(reopen=st.sampled_from((True, True, True, False)))
    def quiesce_or_reopen(self, reopen: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        self.twins.quiesce(reopen=reopen)

    @precondition(lambda self: self._somebody_is(TicketState.WAITING))
    @rule(which=_any, entropy=_entropies)
    def ask_whose_tickets_fill_a_queue(self, which: int, entropy: int) -> None:
        ticket, _ = self.twins.tickets[self._one_that_is(TicketState.WAITING, which)]
        queue = ticket.queue
        assert queue is not None
        waiting = [one.entropy for one in queue]
        assert queue.is_mostly(entropy) is (2 * waiting.count(entropy) >= len(waiting))

    # Invariants

    @invariant()
    def sums_add_up(self) -> None:
        self.twins.queueset.check()

    @invariant()
    def nobody_who_could_sit_is_left_standing(self) -> None:
        queueset, last = self.twins.queueset, self.twins.discipline.robin_index
        queues = [queue for queue in queueset.deck if isinstance(queue, UpstreamEqualSerialQueue) and queue.length]
        free = queueset.concurrency - queueset.seats_in_use
        if not queues or free <= 0:
            return
        assert queueset.seats_in_use, "nobody waits while all seats are free"
        heads = {queue.index: (queue.next_dispatch_r, queue.oldest) for queue in queues}
        finish = {index: start + head.total_work for index, (start, head) in heads.items() if head is not None}
        tied = sorted(index for index in finish if finish[index] == min(finish.values()))
        _, head = heads[next((index for index in tied if index > last), tied[0])]
        assert head is not None
        if head.width <= queueset.concurrency:
            assert head.width > free, "whose turn it is would fit"
        else:
            assert queueset.executing, "too wide a ticket runs when nothing else does"

    @invariant()
    def nobody_gets_lost(self) -> None:
        twins, queueset = self.twins, self.twins.queueset
        picture = queueset.snapshot()
        rejected = sum(queueset.rejected.values())
        assert twins.arrived == twins.released + rejected + queueset.waiting + queueset.executing + picture.lingering
        states = Counter(ticket.state for ticket, _ in twins.tickets.values())
        assert states[TicketState.WAITING] == queueset.waiting == sum(queue.waiting for queue in picture.queues)
        assert states[TicketState.SEATED] == queueset.executing
        assert states[TicketState.LINGERING] == picture.lingering
        assert queueset.dispatched == twins.released + queueset.executing + picture.lingering


class LevelWithQueues(_Machine):
    """Its queues may become none, and come back."""

    first_settings = _queued()
    other_settings = _queued() | _queued() | _queueless


class LevelWithoutQueues(_Machine):
    """Who doesn't fit is rejected; queues may come later."""

    first_settings = _queueless
    other_settings = _queueless


class ExemptLevel(_Machine):
    """Everybody is admitted and counted."""

    first_settings = _exempt
    other_settings = _exempt


TestLevelWithQueues = LevelWithQueues.TestCase
TestLevelWithQueues.settings = examples(60, stateful_step_count=40)
TestLevelWithoutQueues = LevelWithoutQueues.TestCase
TestLevelWithoutQueues.settings = examples(20, stateful_step_count=40)
TestExemptLevel = ExemptLevel.TestCase
TestExemptLevel.settings = examples(10, stateful_step_count=40)
