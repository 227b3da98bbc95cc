"""Seat estimates in documents: how they are read, and the estimators that are built from them."""

import re
from dataclasses import dataclass, field

import pytest

from apf_middleware.classification import Resource
from apf_middleware.config.estimation import (
    AnyEstimate,
    ComputedEstimate,
    ConstantEstimate,
    DeclaredEstimate,
    EstimateSettings,
    EstimationSettings,
    KubernetesEstimate,
    LearnedEstimate,
    LearningSettings,
    Sources,
    derive_estimation,
)
from apf_middleware.config.files import read_text
from apf_middleware.config.model import parse
from apf_middleware.config.problems import Problems
from apf_middleware.config.settings import Settings, adapter_of, as_mapping
from apf_middleware.estimation import (
    Estimate,
    Estimation,
    LearnedCosts,
    ListSettings,
    MutatingSettings,
    ObjectStats,
    WatchTracker,
)
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work
from tests.support.digests import SOMEWHERE, asking, writing

HERE = "tests.support.digests"
DOCUMENT = "apiVersion: apf/v1\nkind: Server\nmetadata: {name: s}\nspec: {part: %s}\n"


@dataclass(frozen=True)
class Part(Settings):
    part: AnyEstimate = field(default_factory=ConstantEstimate)


def read_estimate(text: str) -> tuple[object, str]:
    """Return the estimate in a part of a document, and its problems."""
    found, wrong = read(Part, f"{{part: {text}}}")
    return getattr(found, "part", None), wrong.replace("spec.part.part", "spec.part")


def read(model: type[Settings], text: str) -> tuple[object, str]:
    """Return the result of reading a part of a document, and its problems."""
    problems = Problems()
    [document] = read_text((DOCUMENT % text).encode(), "x.yaml", problems)
    raw = document.root.plain()
    assert isinstance(raw, dict)
    found = parse(model, raw["spec"]["part"], document, problems, ("spec", "part"))
    return found, "\n".join(map(str, problems.errors))


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("{}", ConstantEstimate()),
        ("{seats: 5}", ConstantEstimate(5)),
        ("{source: constant, seats: 2, finalSeats: 3, linger: 5ms}", ConstantEstimate(2, 3, 5_000_000)),
        (
            "{source: header, name: X-Tokens, perSeat: 1000, mostSeats: 20, seats: 2, groups: [gateways]}",
            DeclaredEstimate("header", "x-tokens", groups=("gateways",), per_seat=1000, most_seats=20, seats=2),
        ),
        (
            "{source: query, name: maxTokens, users: ['*'], networks: [10.0.0.0/8]}",
            DeclaredEstimate("query", "maxTokens", users=("*",), networks=("10.0.0.0/8",)),
        ),
        ("{source: kubernetes}", KubernetesEstimate()),
        ("{source: learned}", LearnedEstimate()),
        ("{source: learned, durationPerSeat: 200ms, mostSeats: 4}", LearnedEstimate(200_000_000, 4)),
    ],
)
def test_an_estimate_is_read(text: str, settings: EstimateSettings) -> None:
    assert read_estimate(text) == (settings, "")


def test_a_callable_is_imported() -> None:
    found, wrong = read_estimate(f"{{source: callable, callable: '{HERE}:at_once', mostSeats: 3}}")

    assert wrong == ""
    assert isinstance(found, ComputedEstimate)
    assert (found.function.__name__, found.most_seats) == ("at_once", 3)


@pytest.mark.parametrize(
    ("text", "field", "rule"),
    [
        ("{seats: 0}", "seats", "at least 1"),
        ("{seats: 10001}", "seats", "at most 10000"),
        ("{seats: many}", "seats", "whole number"),
        ("{source: size}", "source", "must be"),
        ("{source: header, users: ['*']}", "name", "the source header requires it"),
        ("{source: header, name: x-seats}", "users", "trusted callers must be named"),
        ("{source: header, name: 'x seats', users: ['*']}", "name", "header's name"),
        ("{source: query, name: n, users: ['']}", "users", "must not be empty"),
        ("{source: query, name: n, networks: [10.0.0.1/8]}", "networks[0]", "network"),
        ("{source: query, name: n, users: [a], perSeat: 0}", "perSeat", "at least 1"),
        ("{source: query, name: n, users: [a], mostSeats: 99999}", "mostSeats", "at most 10000"),
        ("{source: query, name: n, users: [a], linger: 5ms}", "linger", "the source query doesn't take it"),
        ("{seats: 2, mostSeats: 3}", "mostSeats", "the source constant doesn't take it"),
        ("{source: kubernetes, seats: 3}", "seats", "the source kubernetes doesn't take it"),
        ("{source: callable}", "callable", "requires it"),
        ("{source: callable, callable: 'nowhere:f'}", "callable", "can't be imported"),
        (f"{{source: callable, callable: '{HERE}:at_once', mostSeats: 10001}}", "mostSeats", "at most 10000"),
        ("{finalSeats: 3}", "linger", "only mean something together"),
        ("{linger: 5ms}", "finalSeats", "only mean something together"),
        ("{finalSeats: 3, linger: 61s}", "linger", "at most a minute"),
        ("{finalSeats: 10001, linger: 1s}", "finalSeats", "at most 10000"),
        ("{source: learned, durationPerSeat: 0s}", "durationPerSeat", "more than zero"),
        ("{width: 3}", "width", "no such key"),
    ],
)
def test_what_is_wrong_with_an_estimate_is_reported_with_its_place(text: str, field: str, rule: str) -> None:
    found, wrong = read_estimate(text)

    assert found is None
    assert f"spec.part.{field} " in wrong or f"spec.part.{field}:" in wrong
    assert rule in wrong


def test_several_mistakes_are_reported_at_once() -> None:
    _, wrong = read_estimate("{source: query, name: n, finalSeats: 3, linger: 5ms}")

    assert "spec.part.finalSeats is 3" in wrong
    assert "spec.part.linger is '5ms'" in wrong
    assert "spec.part.users" in wrong


def test_the_servers_part_is_read() -> None:
    assert read(EstimationSettings, "{}") == (EstimationSettings(), "")
    text = (
        "{default: {source: learned}, cap: false, learning: {mostRoutes: 5, span: 9, enough: 1},"
        " lists: {bySize: false, watchList: false, consistentReads: true, mostSeats: 7, objectsPerSeat: 10},"
        " writes: {watchesPerSeat: 7.5, event: 1ms, mostSeats: 3}}"
    )
    expected = EstimationSettings(
        LearnedEstimate(),
        LearningSettings(5, 9, 1),
        ListSettings(by_size=False, watch_list=False, consistent_reads=True, most_seats=7, objects_per_seat=10),
        MutatingSettings(watches_per_seat=7.5, event_ns=1_000_000, most_seats=3),
        cap=False,
    )
    assert read(EstimationSettings, text) == (expected, "")


@pytest.mark.parametrize(
    ("text", "field", "rule"),
    [
        ("{default: {source: header, name: a}}", "default.users", "trusted callers"),
        ("{learning: {mostRoutes: 0}}", "learning.mostRoutes", "at least 1"),
        ("{learning: {enough: 0}}", "learning.enough", "at least 1"),
        ("{lists: {bytesPerSeat: 0}}", "lists.bytesPerSeat", "at least 1"),
        ("{lists: {leastSeats: 2}}", "lists.leastSeats", "no such key"),
        ("{writes: {watchesPerSeat: 0}}", "writes.watchesPerSeat", "at least 1"),
        ("{writes: {watchesPerSeat: 0.5}}", "writes.watchesPerSeat", "at least 1"),
        ("{estimate: {}}", "estimate", "no such key"),
    ],
)
def test_what_is_wrong_with_the_servers_part_is_reported_with_its_place(text: str, field: str, rule: str) -> None:
    found, wrong = read(EstimationSettings, text)

    assert found is None
    assert f"spec.part.{field}" in wrong
    assert rule in wrong


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{seats: 2, finalSeats: 3, linger: 5ms}",
        "{source: header, name: x-n, users: [a], groups: [b], networks: ['::1'], perSeat: 3, mostSeats: 4, seats: 2}",
        "{source: query, name: n, users: ['*']}",
        f"{{source: callable, callable: '{HERE}:at_once', mostSeats: 3}}",
        "{source: kubernetes}",
        "{source: learned, durationPerSeat: 200ms, seats: 2}",
    ],
)
def test_an_estimate_can_be_written_as_it_was_read(text: str) -> None:
    found, _ = read_estimate(text)
    assert isinstance(found, EstimateSettings)

    written = as_mapping(found)

    assert adapter_of(AnyEstimate).validate_python(written) == found
    assert set(written) == set(re.findall(r"(\w+):(?: |$)", text))


def test_the_servers_part_can_be_written_as_it_was_read() -> None:
    text = "{default: {source: learned}, cap: false, learning: {span: 9}, lists: {bySize: false}, writes: {event: 1ms}}"
    found, _ = read(EstimationSettings, text)
    assert isinstance(found, EstimationSettings)

    written = as_mapping(found)

    assert adapter_of(EstimationSettings).validate_python(written) == found
    assert written["writes"] == {"event": "1ms"}
    assert as_mapping(EstimationSettings()) == {}


@pytest.mark.parametrize(
    "settings",
    [
        ConstantEstimate(3),
        DeclaredEstimate("query", "n", users=("*",)),
        KubernetesEstimate(),
        LearnedEstimate(seats=2),
        EstimationSettings(),
    ],
)
def test_settings_are_values(settings: object) -> None:
    assert hash(settings) == hash(settings)
    assert settings != ConstantEstimate(99)


def test_a_function_must_be_callable() -> None:
    with pytest.raises(InvalidValueError, match="it must be callable"):
        ComputedEstimate(3)  # type: ignore[arg-type]


# The estimators that are built


@dataclass(frozen=True)
class Route:
    path: str
    methods: tuple[str, ...] = ()
    estimate: EstimateSettings | None = None


def derived(
    settings: EstimationSettings | None = None,
    *,
    schema: EstimateSettings | None = None,
    routes: tuple[Route, ...] = (),
    sources: Sources | None = None,
) -> Estimation:
    return derive_estimation(
        settings or EstimationSettings(),
        schemas={} if schema is None else {"schema": schema},
        routes=routes,
        caps={"level": 8},
        sources=sources or Sources(),
    )


def seats(estimation: Estimation, path: str = "/", **more: dict[str, str]) -> int:
    found = estimation.estimate(asking(path, **more), SOMEWHERE)  # type: ignore[arg-type]
    assert isinstance(found, Estimate)
    return found.work.seats


def test_routes_schemas_and_the_default_become_estimators() -> None:
    routes = (Route("/reports", ("GET",), ConstantEstimate(5)), Route("/plain"))
    settings = EstimationSettings(default=ConstantEstimate(2))

    assert seats(derived(settings, routes=routes), "/reports") == 5
    assert seats(derived(settings, routes=routes), "/plain") == 2
    assert seats(derived(settings, routes=routes, schema=ConstantEstimate(3)), "/plain") == 3


def test_the_caps_can_be_taken_off() -> None:
    assert seats(derived(schema=ConstantEstimate(20))) == 8
    assert seats(derived(EstimationSettings(cap=False), schema=ConstantEstimate(20))) == 20


def test_a_declared_estimate_keeps_all_settings() -> None:
    claim = DeclaredEstimate("query", "n", users=("alice",), per_seat=10, most_seats=4, seats=2)
    estimation = derived(schema=claim)

    assert [seats(estimation, query={"n": value}) for value in ("11", "99", "x")] == [2, 4, 2]
    assert seats(derived(schema=DeclaredEstimate("header", "n", networks=("10.0.0.0/8",))), headers={"n": "3"}) == 1


def test_a_function_is_asked_within_its_bound() -> None:
    assert seats(derived(schema=ComputedEstimate(lambda *_: 9, most_seats=4))) == 4
    assert seats(derived(schema=ComputedEstimate(lambda *_: None, seats=3))) == 3


def test_what_was_learned_is_shared() -> None:
    costs = LearningSettings(enough=1).costs()
    estimation = derived(schema=LearnedEstimate(1000, 6, 2), sources=Sources(costs=costs))

    assert seats(estimation) == 2
    costs.observe("GET /", 3000, 1)
    assert seats(estimation) == 3
    costs.observe("GET /", 10**9, 1)
    assert seats(estimation) == 6


def test_the_table_of_what_is_learned_is_as_configured() -> None:
    costs = LearningSettings(2, 3, 4).costs()

    assert isinstance(costs, LearnedCosts)
    assert (costs._most_routes, costs._weight, costs._enough) == (2, 0.5, 4)


def test_objects_and_watches_are_shared() -> None:
    watches = WatchTracker()
    for _ in range(20):
        watches.register(Resource("pods"))
    sources = Sources(inventory=lambda _: ObjectStats(50, 10_000), watchers=watches.interested)
    settings = EstimationSettings(listing=ListSettings(bytes_per_seat=250_000), mutating=MutatingSettings(event_ns=100))
    estimation = derived(settings, schema=KubernetesEstimate(), sources=sources)

    assert estimation.estimate(writing("list", Resource("pods")), SOMEWHERE) == (Work(2), 2)
    assert estimation.estimate(writing("create", Resource("pods")), SOMEWHERE) == (Work(1, 2, 100), 2)


def test_without_sources_lists_and_writes_take_a_seat() -> None:
    estimation = derived(schema=KubernetesEstimate())

    for verb in ("list", "create"):
        assert estimation.estimate(writing(verb, Resource("pods")), SOMEWHERE) == (Work(1), 1)
