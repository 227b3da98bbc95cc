"""Named queues in a configuration: both notations, parents, and contradictions between documents."""

import pytest

from apf_middleware.config import emit, load_text, read_source
from apf_middleware.config.build import derive_hierarchy, derive_limits
from apf_middleware.config.level_conflicts import default_queue
from tests.support.named_queues import level


def schema(name: str, target: str, spec: str = "") -> str:
    rules = f"spec: {{level: {target}, {spec}rules: [httpRules: [{{}}]]}}\n"
    return f"---\napiVersion: apf/v1\nkind: FlowSchema\nmetadata: {{name: {name}}}\n{rules}"


def server(spec: str) -> str:
    return f"---\napiVersion: apf/v1\nkind: Server\nspec: {{{spec}}}\n"


def errors_of(text: str) -> list[tuple[str, object, str]]:
    return [(problem.field, problem.value, problem.rule) for problem in read_source(text).errors]


def test_a_queue_has_the_keys_of_a_level() -> None:
    ours = load_text(level("batch", "shares: 7, minSeats: 2, maxSeats: 9"))
    volcano_s = load_text(level("batch", "weight: 7, guarantee: 2, capability: 9"))

    assert ours.levels == volcano_s.levels


def test_the_settings_of_a_queue_are_written_as_they_were_read() -> None:
    text = (
        server("seats: 40, defaults: none, trustedProxies: {networks: [10.0.0.0/8]}, queues: "
               "{header: x-queue, groups: [admins], trustedProxies: true, unknown: unavailable, default: web}")
        + level("web")
        + level("tenants", "maxSeats: 20")
        + level("free", "parent: tenants, priority: -2, reclaimable: false, dequeueStrategy: fifo, state: Paused")
        + schema("plans", "web", "queue: {source: group, groups: ['plan:*'], transform: 'plan:(.*)'}, ")
    )  # fmt: skip
    configuration = load_text(text)

    assert load_text(emit(configuration)) == configuration
    assert configuration.server.queues.unknown == "unavailable"
    assert default_queue(configuration) == "web"
    assert configuration.parents == {"tenants"}
    assert "tenants" not in configuration.working_levels
    assert "tenants" not in {problem.value for problem in read_source(text).warnings}


def test_the_default_queue_is_where_everything_else_goes_unless_it_is_named() -> None:
    assert default_queue(load_text("", defaults="none")) == "catch-all"


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        (level("a", "weight: 0"), "spec.weight", "at least 1"),
        (level("a", "weight: -1"), "spec.weight", "at least 1"),
        (level("a", "weight: 1, shares: 1"), "spec.weight", "the same as shares"),
        (level("a", "guarantee: 1, minSeats: 1"), "spec.guarantee", "the same as minSeats"),
        (level("a", "capability: 1, maxSeats: 1"), "spec.capability", "the same as maxSeats"),
        (level("a", "guarantee: 3, capability: 2"), "spec.guarantee", "must not exceed capability, which is 2"),
        (level("a", "minSeats: 3, capability: 2"), "spec.minSeats", "must not exceed maxSeats, which is 2"),
        (level("a", "type: Exempt, parent: b") + level("b"), "spec.parent", "an exempt level"),
        (level("a", "type: Exempt, state: Closed"), "spec.state", "an exempt level"),
        (level("a", "state: Closing"), "spec.state", "'Open', 'Paused' or 'Closed'"),
        (level("a", "priority: 9999999"), "spec.priority", "at most"),
        (level("a", "parent: a"), "spec.parent", "its own parent"),
        (level("a", "parent: b"), "spec.parent", "no such queue"),
        (level("a", "parent: b") + level("b", "parent: c") + level("c"), "spec.parent", "can't be nested"),
        (level("a", "parent: b") + level("b", "parent: a"), "spec.parent", "that queue has a parent itself (b)"),
        (level("a", "parent: exempt"), "spec.parent", "exempt levels"),
        (level("a", "parent: catch-all"), "spec.parent", "a parent takes no requests itself"),
        (level("a", "parent: b") + level("b") + schema("s", "b"), "spec.parent", "'s' sends requests there"),
        (
            level("a", "parent: b") + level("b") + server("queues: {default: b}"),
            "spec.parent",
            "it is the default queue",
        ),
        (level("a", "parent: b") + level("b") + server("borrowing: periodic"), "spec.parent", "lent at each dispatch"),
        (
            level("a", "parent: b, capability: 9") + level("b", "maxSeats: 8"),
            "spec.capability",
            "max of its parent 'b'",
        ),
        (
            level("a", "parent: b, guarantee: 3") + level("c", "parent: b, minSeats: 3") + level("b", "minSeats: 5"),
            "spec.minSeats",
            "adds up to 6, and the min of their parent 'b' is 5",
        ),
        (level("a", "parent: b, minSeats: 3") + level("b", "maxSeats: 2"), "spec.minSeats", "the max of their parent"),
        (server("queues: {default: nobody}"), "spec.queues.default", "no such level"),
        (server("queues: {default: exempt}"), "spec.queues.default", "isn't exempt"),
        (server("queues: {header: X-Queue}"), "spec.queues.header", "no caller would be trusted"),
        (server("queues: {header: 'X Queue', groups: [a]}"), "spec.queues.header", "a header's name"),
        (server("queues: {groups: [a]}"), "spec.queues.groups", "no effect without a header"),
        (
            server("queues: {header: X-Queue, trustedProxies: true}"),
            "spec.queues.trustedProxies",
            "there are no trusted proxies",
        ),
    ],
)
def test_invalid_settings_are_reported_with_their_field(text: str, field: str, words: str) -> None:
    found = errors_of(text)

    assert [one[0] for one in found if words in one[2]] == [field], found


def test_children_divide_their_parent_s_seats_by_their_shares() -> None:
    configuration = load_text(
        server("seats: 40, defaults: none")
        + level("web", "shares: 25")
        + level("tenants", "shares: 20, maxSeats: 10")
        + level("free", "parent: tenants, shares: 1")
        + level("paid", "parent: tenants, shares: 4, minSeats: 3, priority: 2")
    )
    found = {name: (one.nominal, one.min, one.max) for name, one in derive_limits(configuration).items()}

    assert found["tenants"] == (10, 10, 10)
    assert found["free"] == (2, 2, 10)
    assert found["paid"] == (8, 3, 10)
    hierarchy = derive_hierarchy(configuration)
    assert (dict(hierarchy.parent_of), dict(hierarchy.priorities)) == (
        {"free": "tenants", "paid": "tenants"},
        {"paid": 2},
    )


@pytest.mark.parametrize(("most", "promised"), [(2, 0), (7, 6)])
def test_mins_from_shares_are_whole_seats_of_what_their_parent_can_have(most: int, promised: int) -> None:
    configuration = load_text(
        server("seats: 40, defaults: none")
        + level("tenants", f"maxSeats: {most}")
        + "".join(level(name, "parent: tenants") for name in "abc")
    )

    assert sum(derive_limits(configuration)[name].min for name in "abc") == promised


def test_a_guarantee_of_all_seats_is_reported_with_its_meaning() -> None:
    reading = read_source(server("seats: 4") + level("all", "minSeats: 4"))

    [warning] = [one for one in reading.warnings if "add up to 4" in one.rule]
    assert (warning.field, warning.value) == ("spec.minSeats", 4)
    assert warning.rule.endswith("so levels without a min get no seats")
    assert not [
        one for one in read_source(server("seats: 5") + level("all", "minSeats: 4")).warnings if "add up to" in one.rule
    ]


def test_a_parent_is_not_elastic() -> None:
    text = level("tenants", "elastic: true") + level("free", "parent: tenants, elastic: true")

    assert errors_of(text) == [("spec.elastic", True, "a parent takes no requests itself")]
    assert errors_of(text.replace("{elastic: true}", "{}")) == []


def test_a_parent_has_no_headroom() -> None:
    text = level("tenants", "headroom: 20%") + level("free", "parent: tenants, headroom: 20%")

    assert errors_of(text) == [("spec.headroom", 20, "a parent takes no requests itself")]
