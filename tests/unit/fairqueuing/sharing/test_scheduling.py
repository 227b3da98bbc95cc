"""The scheduler alone: which of several waiting levels is served next, and for which one seats are saved up."""

import pytest

from apf_middleware.fairqueuing import LevelLimits, QueueSet, QueueSetSettings, SharedLevel, Ticket, Work
from apf_middleware.fairqueuing.sharing.balance import Balance
from apf_middleware.fairqueuing.sharing.hierarchy import Parent
from apf_middleware.fairqueuing.sharing.ledger import SeatLedger
from apf_middleware.fairqueuing.sharing.scheduling import LevelScheduler


class Waiting:
    """Levels with waiting tickets of the given widths, in the order of the arguments."""

    def __init__(self, seats: int, backfill: int = 0, **widths: tuple[int, int, int]) -> None:
        self.ledger = SeatLedger()
        self.balance = Balance(0)
        self.scheduler = LevelScheduler(self.ledger, self.balance)
        self.levels = {name: self._level(name, *given, backfill) for name, given in widths.items()}
        levels = list(self.levels.values())
        self.ledger.promise(seats, levels, ())
        self.balance.entitle(levels, (), self.ledger.total)
        for level in levels:
            level.counted = 0
            self.ledger.count(level, max(level.least, level.queueset.seats_in_use))
            if level.queueset.waiting:
                self.scheduler.waiting.append(level)
        self.scheduler.divide()

    @staticmethod
    def _level(name: str, least: int, used: int, width: int, backfill: int) -> SharedLevel:
        """Return a level that uses seats, and where one ticket waits if it has a width."""
        settings = QueueSetSettings(least, 1, 1, 10, backfill=backfill)
        queueset = QueueSet(settings, ceiling=100)
        queueset.concurrency = used
        for number in range(used):
            queueset.arrive(0, Ticket(name, number, Work()))
        queueset.concurrency = 0
        if width:
            queueset.arrive(0, Ticket(name, used, Work(width)))
        return SharedLevel(name, settings, LevelLimits(max(least, 5), least, 100), queueset)


def test_a_level_under_its_min_comes_first() -> None:
    waiting = Waiting(10, rich=(0, 5, 1), poor=(2, 1, 1))

    assert waiting.scheduler.survey(0).level is waiting.levels["poor"]


def test_a_draining_level_under_its_min_comes_first_although_it_is_ahead() -> None:
    """The other level may use what its own max allows only when the draining one has given up its min."""
    waiting = Waiting(7, other=(1, 0, 9), leaving=(1, 0, 3))
    leaving = waiting.levels["leaving"]
    leaving.is_draining, leaving.lag = True, -1

    assert waiting.scheduler.survey(0).level is leaving


def test_without_free_seats_only_a_level_under_its_min_may_be_seated() -> None:
    assert not Waiting(6, a=(0, 6, 1)).scheduler.may_seat()
    assert Waiting(6, a=(0, 6, 1), b=(1, 0, 1)).scheduler.may_seat()


def test_seats_are_saved_up_for_a_wide_ticket_whose_turn_it_is() -> None:
    waiting = Waiting(10, wide=(0, 1, 8), narrow=(0, 4, 1))
    decision = waiting.scheduler.survey(0)

    assert decision.saver is waiting.levels["wide"]
    assert decision.ticket is None
    assert [level.name for level, _ in decision.blocked] == ["wide"]
    assert waiting.scheduler.find_backfill(decision) is None


def test_a_narrow_ticket_may_pass_while_rounds_are_left() -> None:
    waiting = Waiting(10, backfill=1, wide=(0, 1, 8), narrow=(0, 4, 1))
    found = waiting.scheduler.find_backfill(waiting.scheduler.survey(0))

    assert found is not None
    assert found.level is waiting.levels["narrow"]
    found.note_seated()
    wide = waiting.levels["wide"].queueset.reservation
    assert wide.other_seats == 1


def test_the_ticket_that_may_be_passed_is_the_one_for_which_seats_are_saved_up() -> None:
    """If the guarantee were asked for more seats than before, it could name another queue."""
    waiting = Waiting(10, backfill=1, wide=(0, 1, 8), narrow=(0, 4, 1))
    guarantee = waiting.levels["wide"].queueset.guarantee
    assert guarantee is not None
    decision = waiting.scheduler.survey(0)
    decided_for = guarantee._usable

    assert waiting.scheduler.find_backfill(decision) is not None
    assert guarantee._usable == decided_for


def test_a_newcomer_wider_than_its_max_takes_no_seats_that_are_saved_up() -> None:
    waiting = Waiting(10, wide=(0, 1, 6), narrow=(0, 4, 1), queueless=(2, 0, 0))
    queueless = waiting.levels["queueless"]
    queueless.most, queueless.ceiling, queueless.lag = 2, 2, -1  # it is ahead, so the others come first

    assert waiting.scheduler.limit_of_newcomer(0, queueless, 2) == 2
    assert waiting.scheduler.limit_of_newcomer(0, queueless, 3) == 0


@pytest.mark.parametrize(
    ("used", "is_far", "most", "saves"),
    [(2, True, 4, True), (2, False, 4, False), (4, True, 4, False), (2, True, 3, False)],
)
def test_a_level_far_behind_saves_seats_up_unless_it_uses_its_whole_max(
    *, used: int, is_far: bool, most: int, saves: bool
) -> None:
    """If its part of the max is smaller than its request, only another part can help."""
    waiting = Waiting(12, behind=(0, used, 4), ahead=(0, 4, 1))
    behind, ahead = waiting.levels.values()
    behind.ceiling, behind.most, behind.lag, ahead.lag = 4, most, waiting.balance.longest + is_far, -1
    decision = waiting.scheduler.survey(0)

    assert (decision.saver, decision.level) == ((behind, None) if saves else (None, ahead))


@pytest.mark.parametrize(("used", "most"), [(0, 0), (1, 2), (2, 2)])
def test_only_siblings_leave_seats_for_a_request_wider_than_its_part_of_a_max(used: int, most: int) -> None:
    """Other levels go on until the part has grown."""
    waiting = Waiting(12, behind=(0, used, 3), sibling=(0, 2, 1), other=(0, 5, 1))
    behind, sibling, other = waiting.levels.values()
    parent = Parent("parent", LevelLimits(2, 0, 5), weight=2, kept=0)
    parent.most, parent.total = 5, used + 2
    behind.parent = sibling.parent = parent
    behind.ceiling, behind.most, behind.lag = 3, most, waiting.balance.longest + 1
    sibling.lag, other.lag = -1, -2
    decision = waiting.scheduler.survey(0)

    assert (decision.saver, decision.saving, decision.level) == (None, [parent], other)


@pytest.mark.parametrize(("most", "saves"), [(4, True), (2, False)])
def test_a_level_far_behind_saves_seats_up_unless_its_parent_uses_its_whole_max(*, most: int, saves: bool) -> None:
    waiting = Waiting(12, behind=(0, 2, 4), ahead=(0, 4, 1))
    behind, ahead = waiting.levels.values()
    behind.parent = parent = Parent("parent", LevelLimits(2, 0, most), weight=2, kept=0)
    parent.most, parent.total = most, behind.counted
    behind.lag, ahead.lag = waiting.balance.longest + 1, -1
    decision = waiting.scheduler.survey(0)

    assert (decision.saver, decision.level) == ((behind, None) if saves else (None, ahead))


def test_a_level_that_waits_alone_again_deserves_what_it_is_entitled_to() -> None:
    """Otherwise it would come before newcomers of levels without queues by what it deserved beside another level."""
    waiting = Waiting(10, wide=(0, 1, 8), former=(0, 0, 0))
    wide = waiting.levels["wide"]
    waiting.balance.users.append(waiting.levels["former"])  # it doesn't wait any more, and has given its seats back

    waiting.scheduler.survey(0)

    assert not waiting.balance.users
    assert wide.deserved == wide.entitled
