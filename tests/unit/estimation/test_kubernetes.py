"""Lists, watches and writes, with the figures of upstream's own tests."""

from urllib.parse import parse_qsl

import pytest

from apf_middleware.classification import Resource
from apf_middleware.estimation import (
    UNCERTAIN,
    KubernetesEstimator,
    ListSettings,
    MutatingSettings,
    ObjectStats,
    WatchTracker,
)
from apf_middleware.estimation.kubernetes import list_seats, mutating_work
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work
from tests.support.digests import SOMEWHERE, asking, writing

PODS = Resource("pods", namespace="foo")
KB, MB = 1000, 1_000_000


def seats(
    query: str,
    stats: ObjectStats | None,
    settings: ListSettings = ListSettings(),  # noqa: B008 (it is frozen)
    *,
    watch: bool = False,
    single: bool = False,
) -> int:
    parsed = dict(parse_qsl(query, keep_blank_values=True))
    return list_seats(parsed, lambda: stats, settings, watch=watch, single=single)


def of_10_kb(count: int) -> ObjectStats:
    return ObjectStats(count, 10 * KB)


SELECTOR = "labelSelector=app%3Dtest"


@pytest.mark.parametrize(
    ("query", "stats", "expected"),
    [
        ("limit=399&resourceVersion=1", of_10_kb(699), 40),
        ("resourceVersion=1", of_10_kb(699), 10),
        ("resourceVersion=1", of_10_kb(69), 7),
        ("limit=399", of_10_kb(699), 40),
        ("", of_10_kb(399), 40),
        ("limit=399&resourceVersion=1", None, 1),
        ("limit=399&resourceVersion=1", UNCERTAIN, 100),
        ("limit=1&resourceVersion=1", UNCERTAIN, 15),
        ("limit=399", ObjectStats(1), 15),
        ("resourceVersion=1", ObjectStats(1), 10),
        ("limit=299&resourceVersion=0", of_10_kb(1999), 10),
        ("limit=20&resourceVersion=0", of_10_kb(1999), 2),
        (f"{SELECTOR}", of_10_kb(799), 80),
        (f"limit=49&{SELECTOR}", of_10_kb(799), 40),
        (f"limit=699&{SELECTOR}", of_10_kb(799), 70),
        (f"{SELECTOR}&resourceVersion=0", of_10_kb(799), 10),
        (f"limit=29&{SELECTOR}&resourceVersion=0", of_10_kb(799), 3),
        ("fieldSelector=a%3Db&limit=49", of_10_kb(799), 40),
        ("limit=invalid", of_10_kb(1), 100),
        ("", ObjectStats(0), 1),
        ("", ObjectStats(0, 10 * KB), 1),
    ],
)
def test_a_list_takes_seats_by_its_size(query: str, stats: ObjectStats | None, expected: int) -> None:
    assert seats(query, stats) == expected


def test_an_exact_version_comes_from_the_store_and_is_capped() -> None:
    query = "resourceVersion=1&resourceVersionMatch=Exact"

    assert seats(query, of_10_kb(5000), ListSettings(most_seats=20)) == 20
    assert seats(query, of_10_kb(5000)) == 100


@pytest.mark.parametrize(
    ("query", "size", "expected"),
    [("", 200 * KB, 2), ("", 1500 * KB, 15), ("resourceVersion=0", 1500 * KB, 10)],
)
def test_a_list_of_one_named_object_costs_one_object(query: str, size: int, expected: int) -> None:
    assert seats(query, ObjectStats(799, size), single=True) == expected


@pytest.mark.parametrize(
    ("query", "cached"),
    [
        ("resourceVersionMatch=NotOlderThan&resourceVersion=5", True),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=5&continue=x&limit=5000", True),
        ("resourceVersionMatch=Exact&resourceVersion=5", False),
        ("resourceVersionMatch=Bogus&resourceVersion=0", False),
        ("resourceVersion=5", True),
        ("resourceVersion=5&limit=0", True),
        ("resourceVersion=5&limit=-3", True),
        ("resourceVersion=5&limit=5000", False),
        ("resourceVersion=0&limit=5000", True),
        ("resourceVersion=0&continue=x", False),
        ("", False),
    ],
)
def test_a_list_from_the_cache_is_cheaper(query: str, cached: bool) -> None:  # noqa: FBT001
    assert seats(query, of_10_kb(799)) == (10 if cached else 80)


def test_without_a_version_a_cache_answers_only_if_the_store_lets_it() -> None:
    assert seats("", of_10_kb(799), ListSettings(consistent_reads=True)) == 10
    assert seats("continue=x", of_10_kb(799), ListSettings(consistent_reads=True)) == 80


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sendInitialEvents=true&resourceVersion=1", 8),
        ("sendInitialEvents=&resourceVersion=1", 8),
        ("sendInitialEvents=FALSE&resourceVersion=1", 1),
        ("sendInitialEvents=0&resourceVersion=1", 1),
        ("resourceVersion=1", 1),
        ("resourceVersion=0", 8),
        ("", 8),
    ],
)
def test_a_watch_that_begins_with_all_objects_counts_as_their_list(query: str, expected: int) -> None:
    assert seats(query, ObjectStats(799, KB), watch=True) == expected


@pytest.mark.parametrize(
    ("query", "total", "count", "by_count_and_size"),
    [  # total is the size of all objects together
        ("", 100 * KB, 99, (2, 1)),
        ("", MB, 1000, (20, 10)),
        (f"limit=100&{SELECTOR}", MB, 1000, (11, 5)),
        ("", 10 * MB, 1000, (20, 100)),
        ("limit=10", 10 * MB, 99, (1, 11)),
        ("resourceVersion=0", 10 * MB, 1000, (10, 10)),
    ],
)
def test_number_and_size_are_two_ways_to_estimate(
    query: str, total: int, count: int, by_count_and_size: tuple[int, int]
) -> None:
    stats = ObjectStats(count, total // count)
    by_count = ListSettings(by_size=False, most_seats=100)

    assert (seats(query, stats, by_count), seats(query, stats)) == by_count_and_size


def test_a_single_large_object_is_expensive_by_size_only() -> None:
    assert seats("", ObjectStats(10, MB), single=True) == 10
    assert seats("", ObjectStats(10, MB), ListSettings(by_size=False), single=True) == 1


@pytest.mark.parametrize(
    ("query", "count", "expected"),
    [
        ("resourceVersion=0", 500, 5),  # from a cache all are looked at
        ("resourceVersion=0&limit=1", 500, 5),
        ("limit=100", 500, 2),
        (f"limit=100&{SELECTOR}", 500, 6),
        (f"{SELECTOR}", 250, 5),
        ("", 451, 10),
        ("", 100_000, 10),
    ],
)
def test_by_number_a_hundred_objects_are_a_seat(query: str, count: int, expected: int) -> None:
    assert seats(query, ObjectStats(count, MB), ListSettings(by_size=False)) == expected


@pytest.mark.parametrize(
    "query",
    ["limit=", "limit=1.5", "limit=0x1", "limit=1_0", "limit= 1", "limit=%D9%A3", f"limit={2**63}", "timeoutSeconds=x"],
)
def test_invalid_list_options_cost_the_maximum(query: str) -> None:
    assert seats(query, None) == 100
    assert seats(query, None, ListSettings(by_size=False)) == 10


@pytest.mark.parametrize("query", ["limit=%2B20", f"limit=20&timeoutSeconds=-{2**63}", "limit=0020"])
def test_numbers_are_read_as_in_go(query: str) -> None:
    assert seats(query, of_10_kb(799)) == 2


# Writes


@pytest.mark.parametrize(
    ("watchers", "most", "final_seats", "linger_ms"),
    [
        (0, 10, 0, 0),
        (5, 10, 0, 0),
        (9, 10, 0, 0),
        (10, 10, 1, 5),
        (11, 10, 2, 5),
        (29, 10, 3, 5),
        (100, 5, 5, 10),
        (199, 10, 10, 10),
        (1000, 10, 10, 50),
    ],
)
def test_a_write_is_charged_for_its_watchers(watchers: int, most: int, final_seats: int, linger_ms: int) -> None:
    work = mutating_work(watchers, MutatingSettings(most_seats=most))

    assert work == Work(1, final_seats, linger_ms * 1_000_000)


def test_a_write_is_one_seat_if_watcher_costs_are_off() -> None:
    assert mutating_work(1000, MutatingSettings(enabled=False)) == Work(1)


def test_watches_per_seat_may_be_fractional() -> None:
    settings = MutatingSettings(watches_per_seat=7.5)

    assert [mutating_work(watchers, settings).final_seats for watchers in (6, 7, 8, 29)] == [0, 1, 2, 4]


# By verb

MANY = ObjectStats(10_000, KB)


def estimator(tracker: WatchTracker | None = None, **settings: bool) -> KubernetesEstimator:
    watchers = WatchTracker() if tracker is None else tracker
    return KubernetesEstimator(lambda _: MANY, watchers.interested, ListSettings(**settings))


def watched(times: int) -> WatchTracker:
    tracker = WatchTracker()
    for _ in range(times):
        tracker.register(Resource("pods"))
        tracker.register(Resource("serviceaccounts"))
    return tracker


@pytest.mark.parametrize(
    ("verb", "work"),
    [
        ("list", Work(100)),
        ("watch", Work(10)),
        ("get", Work(1)),
        ("deletecollection", Work(1)),
        ("proxy", Work(1)),
        ("create", Work(1, 2, 5_000_000)),
        ("update", Work(1, 2, 5_000_000)),
        ("patch", Work(1, 2, 5_000_000)),
        ("delete", Work(1, 2, 5_000_000)),
    ],
)
def test_the_verb_decides_how_work_is_estimated(verb: str, work: Work) -> None:
    assert estimator(watched(20))(writing(verb, PODS), SOMEWHERE) == work


def test_a_watch_may_count_as_one_seat() -> None:
    assert estimator(watch_list=False)(writing("watch", PODS), SOMEWHERE) == Work(1)


def test_a_request_without_a_resource_takes_one_seat() -> None:
    for method in ("GET", "PATCH", "DELETE", "LIST", "WATCH"):
        assert estimator(watched(20))(asking("/healthz", method=method), SOMEWHERE) == Work(1)


def test_a_service_account_token_has_no_watchers() -> None:
    estimate = estimator(watched(20))

    assert estimate(writing("create", Resource("serviceaccounts", subresource="token")), SOMEWHERE) == Work(1)
    assert estimate(writing("create", Resource("serviceaccounts")), SOMEWHERE).final_seats == 2
    assert estimate(writing("create", Resource("pods", subresource="token")), SOMEWHERE).final_seats == 2


def test_a_list_with_a_name_counts_as_a_single_object() -> None:
    assert estimator()(writing("list", Resource("pods", name="x")), SOMEWHERE) == Work(1)


def test_the_inventory_is_asked_for_the_right_resource_and_only_where_it_matters() -> None:
    asked: list[Resource] = []

    def inventory(resource: Resource) -> ObjectStats:
        asked.append(resource)
        return MANY

    estimate = KubernetesEstimator(inventory, lambda *_: 0)
    for verb, query in (("get", {}), ("create", {}), ("watch", {"resourceVersion": "1"}), ("list", {"limit": "x"})):
        estimate(writing(verb, PODS, query), SOMEWHERE)
    assert asked == []

    estimate(writing("list", PODS), SOMEWHERE)
    assert asked == [PODS]


def test_kubernetes_estimates_change_and_depend_on_the_query() -> None:
    assert estimator().dependence.changing
    assert estimator().dependence.query
    assert not estimator().dependence.anything


@pytest.mark.parametrize(
    "name", ["least_seats", "most_seats", "objects_per_seat", "bytes_per_seat", "most_cache_bytes", "largest_object"]
)
def test_constants_of_lists_are_at_least_one(name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name} is 0"):
        ListSettings(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"watches_per_seat": 0.5}, "watches_per_seat"),
        ({"watches_per_seat": float("nan")}, "watches_per_seat"),
        ({"watches_per_seat": float("inf")}, "watches_per_seat"),
        ({"watches_per_seat": True}, "watches_per_seat"),
        ({"event_ns": -1}, "event_ns"),
        ({"most_seats": 0}, "most_seats"),
    ],
)
def test_constants_of_writes_keep_their_rules(settings: dict[str, int], name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name} is "):
        MutatingSettings(**settings)  # type: ignore[arg-type]
