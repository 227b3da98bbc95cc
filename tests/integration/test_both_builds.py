"""What holds in both builds although the classes of the compiled one are no ordinary Python classes.

Copying and pickling, tracebacks, coroutine functions, subclasses, weak references, and the collection of cycles.
"""

import copy
import gc
import inspect
import pickle
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import apf_middleware
from apf_middleware import APFMiddleware, get_admission, is_compiled
from apf_middleware.classification import (
    ANONYMOUS,
    AtomicTest,
    Classification,
    Conjunction,
    Distinguisher,
    Field,
    FlowSchema,
    FlowWeights,
    GroupSubject,
    HttpRule,
    Identity,
    NonResourceRule,
    Operator,
    RequestDigest,
    Resource,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    Source,
    UserSubject,
    ValueMatch,
)
from apf_middleware.classification.digest import NO_VALUES, Resolution
from apf_middleware.config import load
from apf_middleware.exceptions import TicketStateError
from apf_middleware.fairqueuing import (
    DISCIPLINES,
    Adjusting,
    Discipline,
    EqualSerial,
    Lending,
    LevelLimits,
    LevelShares,
    QueueSet,
    QueueSetSettings,
    Reason,
    Ticket,
    TicketState,
    Work,
)
from apf_middleware.fairqueuing.sharing.hierarchy import Hierarchy
from apf_middleware.fairqueuing.ticket import Queue
from tests.support.delegating_discipline import DelegatingDiscipline

RULE = Rule(
    subjects=(UserSubject("u"), GroupSubject("g"), ServiceAccountSubject("n", "a")),
    resource_rules=(ResourceRule(("get",), ("",), ("pods",), namespaces=("*",)),),
    non_resource_rules=(NonResourceRule(("get",), ("/x",)),),
    http_rules=(HttpRule(methods=("GET",), headers=(ValueMatch("a", values=("b",)),)),),
)
VALUES: dict[str, object] = {
    "identity": Identity("name", ("group",), "uid", {"scope": ("read",)}),
    "digest": RequestDigest(ANONYMOUS, "get", "/", resource=Resource("orders", name="7"), query={"a": "b"}),
    "resolution": Resolution("list", Resource("orders"), {"year": "2024"}),
    "classification": Classification("schema", "level", "flow", 7),
    "schema": FlowSchema("s", "l", 5, (RULE,), Distinguisher(Source.HEADER, "tenant")),
    "weights": FlowWeights(2, (("gold", 4.0),), (("dev", 0.5),)),
    "conjunction": FlowSchema("s", "l", rules=(Conjunction((AtomicTest(Field.USER, Operator.EQUALS, ("a",)),)),)),
    "work": Work(2, 3, 5),
    "settings": QueueSetSettings(4, 8, 2, 50, exact=3),
    "limits": LevelLimits(2, 1, 3),
    "shares": LevelShares(30, 50),
    "hierarchy": Hierarchy({"p": LevelLimits(2, 1, 3)}, {"a": "p"}),
    "no values": NO_VALUES,
    "reason": Reason.GATE,
    "state": TicketState.LINGERING,
}
QUEUES = QueueSetSettings(1, 2, 1, queue_length_limit=9)


def pickled(value: object) -> object:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - ours


WAYS = pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickled])


class Slotted(Ticket):
    __slots__ = ("__weakref__", "future", "unset")

    future: object


class Open(Ticket):
    """A ticket with a ``__dict__``."""


class Named(Queue):
    __slots__ = ("__weakref__", "name")

    name: str


class Counted(DelegatingDiscipline, of=EqualSerial):
    """A discipline that counts the calls of `pick`, and opens queues of another class."""

    picks = 0

    def pick(self, widest: int | None = None) -> int:
        self.picks += 1
        return super().pick(widest)


# Copying and pickling


@WAYS
@pytest.mark.parametrize("name", VALUES)
def test_values_can_be_copied_and_pickled(name: str, way: Callable[[object], object]) -> None:
    value = VALUES[name]
    made = way(value)

    assert made == value
    assert type(made) is type(value)
    assert repr(made) == repr(value)


@WAYS
@pytest.mark.parametrize("kind", [Slotted, Open])
def test_a_copy_of_a_ticket_keeps_what_a_subclass_adds(kind: Callable[..., Any], way: Callable[[Any], Any]) -> None:
    ticket = kind("flow", 7, Work(2))
    ticket.future = ["not a future"]
    QueueSet(QueueSetSettings.without_queues(4)).turn_away(5, ticket)
    ticket.queueset = None
    made = way(ticket)

    assert (made.flow, made.entropy, made.work, made.width) == ("flow", 7, Work(2), 2)
    assert (made.state, made.reason, made.arrived_at) == (TicketState.REJECTED, Reason.GATE, 5)
    assert made.future == ["not a future"]
    assert not hasattr(made, "unset")
    assert not hasattr(made, "seated_at")


def test_a_copy_of_a_queue_keeps_what_a_subclass_adds() -> None:
    queue = Named(3)
    queue.name = "a"
    tickets = [Ticket("flow", number, Work()) for number in range(3)]
    for ticket in tickets:
        ticket.total_work = 1
        queue.append(ticket)
    made = copy.deepcopy(queue)

    assert (made.index, made.name, made.length) == (3, "a", 3)
    assert [ticket.entropy for ticket in made] == [0, 1, 2]
    assert not set(made) & set(tickets)


def test_a_value_is_still_frozen() -> None:
    work: Any = pickled(Work(2))
    with pytest.raises(AttributeError):
        work.seats = 3


# Looking


def raised(call: Callable[[], object]) -> TicketStateError:
    with pytest.raises(TicketStateError) as caught:
        call()
    return caught.value


def test_a_traceback_names_file_line_and_function_of_the_source() -> None:
    error = raised(lambda: QueueSet(QUEUES).release(1, Ticket("flow", 7, Work())))
    frame = traceback.extract_tb(error.__traceback__)[-1]
    source = Path(apf_middleware.__file__).parent / "fairqueuing" / "queueset.py"

    assert Path(frame.filename).parts[-3:] == ("apf_middleware", "fairqueuing", "queueset.py")
    assert frame.name == "release"
    assert frame.lineno is not None
    assert "raise TicketStateError" in source.read_text().splitlines()[frame.lineno - 1]


def test_a_traceback_goes_through_the_code_of_the_app() -> None:
    class Broken(Counted, of=EqualSerial):
        def pick(self, widest: int | None = None) -> int:  # noqa: ARG002
            raise ZeroDivisionError

    queueset = QueueSet(QUEUES, discipline=Broken)
    queueset.arrive(0, first := Ticket("flow", 7, Work()))
    queueset.arrive(1, Ticket("flow", 7, Work()))
    with pytest.raises(ZeroDivisionError) as caught:
        queueset.release(2, first)

    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-2:] == ["head", "pick"]


def test_servers_see_that_the_middleware_is_a_coroutine_function() -> None:
    """Some servers tell the two versions of ASGI apart by this."""
    middleware = APFMiddleware(lambda *_: None, load())  # type: ignore[arg-type]

    assert inspect.iscoroutinefunction(middleware.__call__)
    assert inspect.iscoroutinefunction(APFMiddleware.__call__)
    assert inspect.iscoroutinefunction(get_admission)


def test_arguments_have_the_names_of_the_signature() -> None:
    assert [*inspect.signature(Ticket).parameters] == ["flow", "entropy", "work", "weight"]
    assert [*inspect.signature(QueueSet.release).parameters] == ["self", "now", "ticket"]
    assert Ticket(flow="flow", entropy=7, work=Work(seats=2)).width == 2


def test_numbers_have_the_types_that_are_declared() -> None:
    """A float that is whole is shown as a float, in JSON too."""
    sharing = Adjusting(4, {"a": (QUEUES, LevelLimits(4, 0, 4))})
    sharing.tick(10 * 10**9)
    record = sharing.levels["a"].record

    assert record is not None
    assert type(record.adjustment.target) is float
    assert type(record.adjustment.smoothed) is float


# Subclassing


def test_a_discipline_of_the_app_is_used() -> None:
    queueset = QueueSet(QUEUES, discipline=Counted)
    running = [*queueset.arrive(0, Ticket("flow", 7, Work()))]
    for now in range(1, 4):
        queueset.arrive(now, Ticket("flow", 7, Work()))
    for now in range(4, 8):
        running += queueset.release(now, running.pop(0))
    discipline = queueset.discipline

    assert isinstance(discipline, Counted)
    assert discipline.picks == 3
    assert "equal-serial" in repr(queueset)


def test_a_discipline_without_a_necessary_method_raises() -> None:
    """In the compiled build the call of such a method would otherwise end the process."""

    class Unfinished(Discipline[Queue]):
        name = "unfinished"

        def __init__(self, concurrency: int, guess_ns: int) -> None:
            """Do nothing."""

    with pytest.raises((TypeError, NotImplementedError)):  # on creation, or in the compiled build on the first call
        QueueSet(QUEUES, discipline=Unfinished)


def test_a_method_that_a_ticket_overrides_is_called() -> None:
    class Passed(Ticket):
        times = 0

        def pass_over(self) -> None:
            self.times += 1

    queueset = QueueSet(QueueSetSettings(2, 2, 1, 9))
    queueset.arrive(0, Ticket("flow", 7, Work()))
    queueset.arrive(1, wide := Passed("flow", 7, Work(2)))

    assert wide.times == 1
    assert repr(wide) == "<Passed 'flow' waiting width=2 queue=1>"


# Memory


@pytest.mark.parametrize(("kind", "arguments"), [(Slotted, ("a", 7, Work())), (Open, ("a", 7, Work())), (Named, (3,))])
def test_a_subclass_can_allow_weak_references(kind: Callable[..., object], arguments: tuple[object, ...]) -> None:
    instance = kind(*arguments)
    reference = weakref.ref(instance)

    assert reference() is instance
    del instance
    assert reference() is None


@pytest.mark.parametrize("discipline", DISCIPLINES.values(), ids=list(DISCIPLINES))
@pytest.mark.parametrize("way", ["queue set", "lending", "adjusting"])
def test_cycles_are_collected(way: str, discipline: Any) -> None:  # noqa: ANN401 - a class
    """Tickets, their queue set and its queues refer to each other, and so may what the app adds."""
    gc.collect()
    gc.disable()
    try:
        references = [weakref.ref(ticket) for ticket in _tickets(way, discipline)]
        assert [reference() is None for reference in references] == [False] * 4
        gc.collect()
        assert [reference() is None for reference in references] == [True] * 4
    finally:
        gc.enable()


def _tickets(way: str, discipline: Any) -> list[Slotted]:  # noqa: ANN401
    """Return a running ticket, one that lingers, and two that wait, for the same level."""
    tickets = [Slotted("flow", 7, Work(1, 1, 10**12)) for _ in range(4)]
    for ticket in tickets:
        ticket.future = ticket
    if way == "queue set":
        queueset = QueueSet(QueueSetSettings(2, 2, 1, 9), discipline=discipline)
        for now, ticket in enumerate(tickets):
            queueset.arrive(now, ticket)
        queueset.release(5, tickets[0])
    else:
        settings = {name: (QueueSetSettings(2, 2, 1, 9), LevelLimits(2, 2, 2)) for name in "ab"}
        sharing = (Lending if way == "lending" else Adjusting)(4, settings, discipline=discipline)
        for now, ticket in enumerate(tickets):
            sharing.arrive(now, sharing.levels["a"], ticket)
        sharing.release(5, sharing.levels["a"], tickets[0])
    assert [ticket.state.value for ticket in tickets] == ["lingering", "seated", "waiting", "waiting"]
    return tickets


def test_the_build_is_the_one_that_is_installed() -> None:
    suffix = Path(inspect.getfile(inspect.getmodule(QueueSet) or apf_middleware)).suffix

    assert is_compiled is (suffix != ".py")
