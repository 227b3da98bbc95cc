"""Properties of estimates: bounds, monotonicity, and tables compared with unbounded reference implementations."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.classification import ANONYMOUS, Classification, RequestDigest, Resource
from apf_middleware.estimation import (
    UNCERTAIN,
    Declared,
    Estimate,
    Estimation,
    KubernetesEstimator,
    LearnedCosts,
    ListSettings,
    MutatingSettings,
    ObjectStats,
    Trust,
    WatchTracker,
    cut,
    route_key,
    seat_cap,
)
from apf_middleware.estimation.kubernetes import list_seats, mutating_work
from apf_middleware.estimation.learned import LONGEST_ROUTE
from apf_middleware.fairqueuing import Work

SOMEWHERE = Classification("schema", "level", "", 0)

works = st.builds(Work, st.integers(1, 500), st.integers(0, 500), st.integers(0, 10**9).map(lambda n: n * 10))
caps = st.integers(0, 600)


@given(works, caps)
def test_a_cut_keeps_within_the_cap_and_keeps_the_final_work(work: Work, cap: int) -> None:
    found = cut(work, cap)

    assert found.width <= (cap or work.width)
    assert found.seats == min(work.seats, cap or work.seats)
    assert found.final_seats == min(work.final_seats, cap or work.final_seats)
    # A remainder smaller than a nanosecond is lost.
    assert 0 <= work.final_work - found.final_work <= found.final_seats
    assert cut(found, cap) == found


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_a_cap_grows_with_the_level_and_leaves_room_for_a_hand(nominal: int, hand: int) -> None:
    cap = seat_cap(nominal, hand)

    assert 1 <= cap <= seat_cap(nominal + 1, hand)
    assert cap == 1 or (cap * hand <= nominal and cap < nominal * 0.15 + 1)
    assert seat_cap(nominal, hand + 1) <= cap


queries = st.dictionaries(
    st.sampled_from(("limit", "continue", "labelSelector", "resourceVersion", "resourceVersionMatch", "timeoutSeconds"))
    | st.just("sendInitialEvents"),
    st.sampled_from(("", "0", "1", "5", "500", "-5", "true", "Exact", "NotOlderThan", "x")) | st.text(max_size=3),
)
settings = st.builds(
    ListSettings,
    by_size=st.booleans(),
    consistent_reads=st.booleans(),
    most_seats=st.none() | st.integers(1, 200),
    bytes_per_seat=st.integers(1, 10**6),
)
counts, sizes = st.integers(0, 10**7), st.integers(0, 10**6)


stored = st.none() | st.just(UNCERTAIN) | st.builds(ObjectStats, counts, sizes)


@given(query=queries, stats=stored, listing=settings, watch=st.booleans(), single=st.booleans())
def test_seats_of_a_list_are_always_within_bounds(
    query: dict[str, str], stats: ObjectStats | None, listing: ListSettings, *, watch: bool, single: bool
) -> None:
    found = list_seats(query, lambda: stats, listing, watch=watch, single=single)

    assert listing.least_seats <= found <= listing.limit


@given(queries, counts, st.integers(1, 10**6), settings, st.integers(1, 1000))
def test_more_objects_or_larger_ones_never_take_less(
    query: dict[str, str], count: int, size: int, listing: ListSettings, more: int
) -> None:
    def seats(count: int, size: int) -> int:
        return list_seats(query, lambda: ObjectStats(count, size), listing)

    assert seats(count, size) <= seats(count + more, size)
    assert seats(count, size) <= seats(count, size + more)


@given(st.integers(0, 10**6), st.integers(1, 100), st.floats(1, 1000))
def test_a_write_pays_the_same_final_work_on_however_few_seats(watchers: int, most: int, per_seat: float) -> None:
    narrow = mutating_work(watchers, MutatingSettings(watches_per_seat=per_seat, most_seats=most))
    wide = mutating_work(watchers, MutatingSettings(watches_per_seat=per_seat, most_seats=10**9))

    assert narrow.final_seats == min(wide.final_seats, most)
    assert 0 <= wide.final_work - narrow.final_work <= narrow.final_seats
    assert wide.final_work <= mutating_work(watchers + 1, MutatingSettings(watches_per_seat=per_seat)).final_work + 10


names = st.sampled_from(("", "a", "b"))
resources = st.builds(lambda group, namespace, name: Resource("pods", group, "", "", namespace, name), *[names] * 3)


@given(st.lists(st.tuples(st.sampled_from(("register", "forget")), resources, st.integers(0, 50)), max_size=60))
def test_the_tracker_agrees_with_a_list_of_all_watches(plan: list[tuple[str, Resource, int]]) -> None:
    tracker = WatchTracker()
    living = [(Resource("nodes", "elsewhere"), tracker.register(None))]  # which counts nowhere
    for what, resource, place in plan:
        if what == "register":
            living.append((resource, tracker.register(resource)))
        elif living:
            tracker.forget(living.pop(place % len(living))[1])
        tracker.check()
        covering = [
            one
            for one, _ in living
            if one.api_group == resource.api_group
            and (
                (not one.namespace and not one.name)
                or (not one.name and bool(resource.namespace) and one.namespace == resource.namespace)
                or (one.name == resource.name and one.namespace == resource.namespace)
            )
        ]
        assert tracker.interested("update", resource) == len(covering)
        assert tracker.interested("get", resource) == 0


@given(st.integers(1, 6), st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 10**9)), max_size=60))
def test_learned_costs_are_those_of_the_routes_seen_last(most: int, seen: list[tuple[str, int]]) -> None:
    costs = LearnedCosts(most, span=10**6, enough=1)
    kept: dict[str, list[int]] = {}
    for route, duration in seen:
        costs.observe(route, duration, duration)
        observed = kept.pop(route, [])
        kept[route] = [*observed, duration]
        if len(kept) > most:
            del kept[next(iter(kept))]
        costs.check()

    assert len(costs) == len(kept)
    for route, durations in kept.items():
        guess = costs.guess(route)
        assert guess is not None
        assert guess.count == len(durations)
        assert min(durations) - 1 <= guess.duration_ns <= max(durations) + 1
        assert abs(guess.duration_ns - sum(durations) / len(durations)) <= 1e-6 * max(durations) + 1e-6


@given(st.text(max_size=400), st.text(max_size=20))
def test_route_keys_are_short(path: str, method: str) -> None:
    key = route_key(RequestDigest(ANONYMOUS, method.lower(), path, method))

    assert key is None or len(key) <= LONGEST_ROUTE


@given(st.text(max_size=30) | st.integers(-(10**30), 10**30).map(str), st.integers(1, 100), st.integers(1, 10**6))
def test_a_declared_estimate_is_always_within_bounds(value: str, most: int, per_seat: int) -> None:
    estimator = Declared("query", "n", Trust(frozenset({"*"})), per_seat=per_seat, most_seats=most)
    work = estimator(RequestDigest(ANONYMOUS, "get", "/", query={"n": value}), SOMEWHERE)

    assert 1 <= work.seats <= most


@given(works, caps)
def test_truncation_is_marked(work: Work, cap: int) -> None:
    digest = RequestDigest(ANONYMOUS, "get", "/")
    found = Estimation(lambda *_: work, caps={"level": cap}).estimate(digest, SOMEWHERE)

    assert isinstance(found, Estimate)
    assert (found.work.width < found.asked) == (0 < cap < work.width)


@given(st.sampled_from(("get", "list", "watch", "create", "update", "delete", "x")), resources, queries)
def test_kubernetes_estimates_are_always_work(verb: str, resource: Resource, query: dict[str, str]) -> None:
    asked = Counter[str]()

    def inventory(_: Resource) -> ObjectStats:
        asked["inventory"] += 1
        return ObjectStats(10**6, 10**4)

    def watchers(*_: object) -> int:
        asked["watchers"] += 1
        return 50

    estimator = KubernetesEstimator(inventory, watchers)
    work = estimator(RequestDigest(ANONYMOUS, verb, "/", resource=resource, query=query), SOMEWHERE)

    assert 1 <= work.width <= 100
    assert asked.total() <= 1
    assert (work.final_seats > 0) == (verb in {"create", "update", "delete"})
