from dataclasses import replace

import pytest

from apf_middleware.classification import Identity, RequestDigest, Resolution, Resource
from apf_middleware.config import Configuration, Level, Queuing, Route, load, load_text
from apf_middleware.config.build import derive_classifier, derive_limits, derive_resolver, derive_settings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import QueueSetSettings, flow_hash
from apf_middleware.fairqueuing.sharing.limits import LevelLimits, LevelShares

LIMITS = LevelLimits(nominal=7, min=3, max=20)


@pytest.mark.parametrize(
    ("level", "settings"),
    [
        (Level("a", LevelShares(1), Queuing(16, 4, 9)), QueueSetSettings(7, 16, 4, 9)),
        (Level("a", LevelShares(1)), QueueSetSettings.without_queues(7)),
        (Level("a", LevelShares(0, exempt=True)), QueueSetSettings.without_limit(7)),
    ],
)
def test_a_level_s_queue_set_begins_with_its_nominal_seats(level: Level, settings: QueueSetSettings) -> None:
    assert derive_settings(level, LIMITS) == settings


def test_kubernetes_defaults_come_to_kubernetes_seats() -> None:
    configuration = load(defaults="kubernetes")
    configuration = replace(configuration, server=replace(configuration.server, seats=600))

    nominal = {name: limits.nominal for name, limits in derive_limits(configuration).items()}

    assert nominal == {
        "catch-all": 13,
        "exempt": 0,
        "global-default": 49,
        "leader-election": 25,
        "node-high": 98,
        "system": 74,
        "workload-high": 98,
        "workload-low": 245,
    }


@pytest.mark.parametrize(
    ("least", "most", "limits"),
    [
        (None, None, LevelLimits(50, 25, 150)),
        (60, None, LevelLimits(60, 60, 150)),
        (10, None, LevelLimits(50, 10, 150)),
        (None, 40, LevelLimits(40, 25, 40)),
        (None, 10, LevelLimits(10, 10, 10)),
        (0, 0, LevelLimits(0, 0, 0)),
    ],
)
def test_seats_in_numbers_go_before_what_shares_come_to(
    least: int | None, most: int | None, limits: LevelLimits
) -> None:
    levels = {
        "a": Level("a", LevelShares(10, lendable_percent=50), min_seats=least, max_seats=most),
        "b": Level("b", LevelShares(10)),
    }

    assert derive_limits(Configuration(levels, ()))["a"] == limits


def test_paths_are_understood_as_the_server_says() -> None:
    kubernetes = derive_resolver(load(defaults="kubernetes"))
    web = load()
    routed = replace(web, server=replace(web.server, routes=(Route("/tenants/{namespace}/orders/{name}", "orders"),)))

    assert kubernetes("GET", "/api/v1/pods", {}) == Resolution("list", Resource("pods", version="v1"))
    assert derive_resolver(web)("GET", "/tenants/a/orders/7", {}).resource is None
    assert derive_resolver(routed)("GET", "/tenants/a/orders/7", {}).resource == Resource(
        "orders", namespace="a", name="7"
    )


def test_flows_do_not_matter_where_nothing_queues() -> None:
    text = """
kind: FlowSchema
apiVersion: apf/v1
metadata: {name: all}
spec: {level: LEVEL, precedence: 10, distinguisher: {source: user}, rules: [{subjects: [{user: '*'}], httpRules: [{}]}]}
---
kind: PriorityLevel
apiVersion: apf/v1
metadata: {name: queued}
spec: {shares: 10, queuing: {queues: 8, handSize: 2}}
---
kind: PriorityLevel
apiVersion: apf/v1
metadata: {name: single}
spec: {shares: 10, queuing: {queues: 1, handSize: 1}}
---
kind: PriorityLevel
apiVersion: apf/v1
metadata: {name: rejecting}
spec: {shares: 10, response: Reject}
"""
    digest = RequestDigest(Identity("alice"), "get", "/")

    for level, flow, entropy in (("queued", "alice", flow_hash("all", "alice")), ("single", "", 0)):
        found = derive_classifier(load_text(text.replace("LEVEL", level))).classify(digest)
        assert (found.level, found.flow, found.entropy) == (level, flow, entropy)


def test_requests_that_no_schema_accepts_need_a_fallback() -> None:
    with pytest.raises(InvalidValueError, match="there must be one for all other requests"):
        derive_classifier(Configuration({}, ()))


def mins(seats: int, more: str = "") -> dict[str, int]:
    configuration = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}{more}}}\n")
    return {name: limits.min for name, limits in derive_limits(configuration).items() if limits.nominal}


@pytest.mark.parametrize("seats", range(1, 40))
def test_mins_of_a_small_server_leave_a_seat_to_levels_without_a_min(seats: int) -> None:
    found = mins(seats)
    assert sum(found.values()) <= seats - (0 in found.values())


def test_those_with_the_fewest_shares_give_first() -> None:
    levels = "".join(
        f"---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\nspec: {{shares: {shares}}}\n"
        for name, shares in (("big", 75), ("small", 25))
    )
    for seats in (2, 1):
        server = f"apiVersion: apf/v1\nkind: Server\nspec: {{seats: {seats}, defaults: none}}\n"
        found = derive_limits(load_text(server + levels))
        assert [found[name].min for name in ("big", "small", "catch-all")] == [seats - 1, 0, 0]


def test_the_web_defaults_promise_nothing_on_a_server_of_few_seats() -> None:
    assert set(mins(32).values()) == {0}
    assert mins(33)["users"] > 0


@pytest.mark.parametrize("more", [", borrowing: periodic", ", strictUpstream: true"])
def test_kubernetes_ways_keep_their_mins(more: str) -> None:
    assert mins(1, more)["catch-all"] == 1


def test_mins_that_are_numbers_are_kept_and_where_they_are_all_seats_the_others_keep_theirs() -> None:
    text = (
        "apiVersion: apf/v1\nkind: Server\nspec: {seats: 2, defaults: none}\n---\n"
        "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: a}\nspec: {minSeats: 2}\n---\n"
        "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: b}\nspec: {shares: 50}\n"
    )
    found = derive_limits(load_text(text))
    assert (found["a"].min, found["b"].min) == (2, 2)


def test_mins_from_shares_are_no_more_than_the_whole_seats_of_a_level_s_exact_part() -> None:
    text = "apiVersion: apf/v1\nkind: Server\nspec: {seats: 12, defaults: none}\n"
    for name, weight in (("a", 100), ("b", 300)):
        text += (
            f"---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\nspec: {{weight: {weight}}}\n"
        )
    found = derive_limits(load_text(text))

    assert {name: (found[name].nominal, found[name].min) for name in "ab"} == {"a": (3, 2), "b": (9, 8)}
