"""Scenarios: valid settings, and the errors of invalid ones."""

import random
import statistics
from pathlib import Path

import pytest

from apf_middleware.config import ConfigurationError
from apf_middleware.config.scenario import (
    AnyDuration,
    BurstArrivals,
    CalledArrivals,
    ClosedArrivals,
    ConstantDuration,
    ExponentialDuration,
    LognormalDuration,
    MixedDuration,
    ParetoDuration,
    PoissonArrivals,
    ReplayedArrivals,
    Retries,
    Scenario,
    ScenarioMembers,
    SteadyArrivals,
    Tenant,
    TenantRequest,
    UniformDuration,
    WeightedDuration,
    WeightedSeats,
    load_scenario,
    read_scenario,
    read_scenario_text,
)
from apf_middleware.exceptions import InvalidValueError

MS = 10**6
SECOND = 10**9

HEAD = "apiVersion: apf/v1\nkind: Scenario\nspec:\n"
TENANT = "  tenants:\n  - name: t\n    arrivals: {type: poisson, rate: 1}\n    service: 1ms\n"

DURATIONS: list[tuple[str, AnyDuration]] = [
    ("20ms", ConstantDuration(20 * MS)),
    ("{type: constant, value: 20ms}", ConstantDuration(20 * MS)),
    ("{type: uniform, least: 10ms, most: 30ms}", UniformDuration(10 * MS, 30 * MS)),
    ("{type: exponential, mean: 20ms}", ExponentialDuration(20 * MS)),
    ("{type: lognormal, median: 20ms, sigma: 0.5}", LognormalDuration(20 * MS, 0.5)),
    ("{type: pareto, least: 5ms, shape: 1.5, most: 10s}", ParetoDuration(5 * MS, 1.5, 10 * SECOND)),
    ("{type: pareto, least: 5ms, shape: 1, most: 1s}", ParetoDuration(5 * MS, 1.0, SECOND)),
    (
        "{type: mixture, of: [{weight: 9, duration: 10ms}, {duration: {type: exponential, mean: 100ms}}]}",
        MixedDuration(
            (WeightedDuration(ConstantDuration(10 * MS), 9.0), WeightedDuration(ExponentialDuration(100 * MS)))
        ),
    ),
]


def tenant(service: str = "1ms", arrivals: str = "{type: poisson, rate: 1}", more: str = "") -> str:
    return f"{HEAD}  tenants:\n  - name: t\n    arrivals: {arrivals}\n    service: {service}\n{more}"


def first_tenant(text: str) -> Tenant:
    scenario, _ = read_scenario_text(text).unwrap()
    return scenario.tenants[0]


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read_scenario_text(text, "s.yaml").problems]


@pytest.mark.parametrize(("text", "expected"), DURATIONS)
def test_durations_follow_their_distribution(text: str, expected: AnyDuration) -> None:
    service = first_tenant(tenant(text)).service

    assert service == expected
    dice = random.Random(1)
    drawn = [service.draw(dice) for _ in range(40_000)]
    assert min(drawn) >= 0
    assert statistics.fmean(drawn) == pytest.approx(service.mean_ns, rel=0.05)


def test_a_heavy_tail_is_cut() -> None:
    dice = random.Random(1)
    drawn = [ParetoDuration(5 * MS, 0.5, SECOND).draw(dice) for _ in range(2_000)]

    assert (min(drawn) >= 5 * MS, max(drawn)) == (True, SECOND)


def test_the_heaviest_tail_is_a_number_for_any_dice() -> None:
    class Last(random.Random):
        def random(self) -> float:
            return 1 - 2**-53

    assert ParetoDuration(5 * MS, 0.1, SECOND).draw(Last()) == SECOND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{type: poisson, rate: 2.5}", PoissonArrivals(2.5)),
        ("{type: constant, rate: 2}", SteadyArrivals(2.0)),
        (
            "{type: bursts, rate: 9, on: 2s, off: {type: exponential, mean: 8s}, idleRate: 1}",
            BurstArrivals(9.0, ConstantDuration(2 * SECOND), ExponentialDuration(8 * SECOND), 1.0),
        ),
        ("{type: closed, connections: 3}", ClosedArrivals(3)),
        (
            "{type: closed, connections: 3, think: 1s, pause: 2s}",
            ClosedArrivals(3, ConstantDuration(SECOND), ConstantDuration(2 * SECOND)),
        ),
        ("{type: replay, file: t.jsonl}", ReplayedArrivals("t.jsonl")),
        ("{type: called}", CalledArrivals()),
    ],
)
def test_arrivals_are_read_by_their_type(text: str, expected: object) -> None:
    assert first_tenant(tenant(arrivals=text)).arrivals == expected


def test_a_tenant_has_clients_and_requests() -> None:
    more = """\
    count: 3
    groups: [g]
    request: {method: POST, path: "/x/{n}", host: h, headers: {X-Tenant: "{n}"}, clientAddress: "10.0.0.{n}"}
    seats: [{weight: 9, seats: 1}, {seats: 4}]
    timeout: 1s
    retries: {most: 3, backOff: 200ms, factor: 3, jitter: 0, longest: 1m, on: [timeout], obeyRetryAfter: true}
    begin: 1s
    end: 5s
"""
    assert first_tenant(tenant(more=more)) == Tenant(
        "t",
        PoissonArrivals(1.0),
        ConstantDuration(MS),
        3,
        None,
        ("g",),
        TenantRequest("POST", "/x/{n}", "h", {"x-tenant": "{n}"}, "10.0.0.{n}"),
        (WeightedSeats(1, 9.0), WeightedSeats(4)),
        SECOND,
        Retries(3, ConstantDuration(200 * MS), 3.0, 0.0, 60 * SECOND, ("timeout",), obey_retry_after=True),
        SECOND,
        5 * SECOND,
    )


def test_clients_are_called_like_their_tenant() -> None:
    assert first_tenant(tenant()).user_name == "t"
    assert first_tenant(tenant(more="    count: 2\n")).user_name == "t-{n}"
    assert first_tenant(tenant(more="    count: 2\n    user: u\n")).user_name == "u"


def test_a_number_of_seats_is_always_that() -> None:
    assert first_tenant(tenant(more="    seats: 3\n")).widths == (WeightedSeats(3),)


def test_other_documents_and_files_are_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 7, defaults: none}\n")
    level = "---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: mine}\nspec: {shares: 5}\n"
    (tmp_path / "s.yaml").write_text(f"{HEAD}  configuration: [server.yaml]\n{TENANT}{level}")

    scenario, configuration = load_scenario(tmp_path / "s.yaml")

    assert configuration.server.seats == 7
    assert "mine" in configuration.levels
    assert scenario.folder == str(tmp_path)


def test_without_a_scenario_there_may_be_only_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("apiVersion: apf/v1\nkind: Server\nspec: {seats: 7}\n")

    with pytest.raises(ConfigurationError, match=r"c.yaml: error: there must be a document of the kind Scenario"):
        load_scenario(tmp_path / "c.yaml")
    scenario, configuration = read_scenario([tmp_path / "c.yaml"], wanted=False).unwrap()
    assert scenario == Scenario(folder=str(tmp_path))
    assert configuration.server.seats == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{HEAD}  duration: 1s\n", "s.yaml:3: error: spec.tenants is [], but there must be at least one"),
        (
            f"{HEAD}  name: s\n{TENANT}",
            "s.yaml:4: error: spec.name is 's', but there is no such key here. Write it under metadata",
        ),
        (
            f"{HEAD}  start: 1s\n{TENANT}",
            (
                "s.yaml:4: error: spec.start is '1s', but there is no such key here. Known keys: about, backend,"
                " balancing, configuration, duration, members, seed, servers, tenants, warmUp"
            ),
        ),
        (
            tenant("20"),
            (
                "s.yaml:7: error: spec.tenants[0].service is 20, but it must be a duration, or a mapping with"
                " a type. Write it like 20ms"
            ),
        ),
        (
            tenant("{type: exponential, average: 1s}"),
            (
                "s.yaml:7: error: spec.tenants[0].service.average is '1s', but there is no such key here. Here"
                " it is called mean"
            ),
        ),
        (
            tenant("{type: exponential, median: 1s}"),
            (
                "s.yaml:7: error: spec.tenants[0].service.median is '1s', but the type exponential doesn't"
                " take it. It takes mean"
            ),
        ),
        (
            tenant("{type: pareto, shape: 1, most: 1s}"),
            "s.yaml:7: error: spec.tenants[0].service.least is absent, but the type pareto requires it",
        ),
        (
            tenant("{type: pareto, least: 1ms, shape: 0.05, most: 1s}"),
            "s.yaml:7: error: spec.tenants[0].service.shape is 0.05, but it must be at least 0.1",
        ),
        (
            tenant("{type: mixture, of: [{weight: 1e308, duration: 1ms}]}"),
            "s.yaml:7: error: spec.tenants[0].service.of[0].weight is 1e+308, but it must be at most 1000000000.0",
        ),
        (
            tenant(more="    seats: [{weight: 1e308, seats: 1}]\n"),
            "s.yaml:8: error: spec.tenants[0].seats[0].weight is 1e+308, but it must be at most 1000000000.0",
        ),
        (
            tenant("{type: pareto, least: 0s, shape: 1, most: 1s}"),
            "s.yaml:7: error: spec.tenants[0].service.least is '0s', but it must be more than zero",
        ),
        (
            tenant("{type: uniform, least: 2s, most: 1s}"),
            "s.yaml:7: error: spec.tenants[0].service.most is '1s', but it must not be less than least",
        ),
        (
            tenant(arrivals="{type: poison, rate: 1}"),
            (
                "s.yaml:6: error: spec.tenants[0].arrivals.type is 'poison', but it must be 'poisson',"
                " 'constant', 'bursts', 'closed', 'replay' or 'called'. Did you mean poisson?"
            ),
        ),
        (
            tenant(arrivals="{type: poisson, rate: 0}"),
            "s.yaml:6: error: spec.tenants[0].arrivals.rate is 0, but it must be more than 0.0",
        ),
        (
            tenant(arrivals="{type: bursts, rate: 1, on: 0s, off: 1s}"),
            "s.yaml:6: error: spec.tenants[0].arrivals.on is '0s', but it must be more than zero",
        ),
        (
            tenant(arrivals="{type: closed, connections: 1, pause: 0s}"),
            (
                "s.yaml:6: error: spec.tenants[0].arrivals.pause is '0s', but it must be more than zero, unless"
                " backend.overhead is"
            ),
        ),
        (
            tenant("0s", arrivals="{type: closed, connections: 1}"),
            (
                "s.yaml:7: error: spec.tenants[0].service is '0s', but it must be more than zero, unless"
                " backend.overhead is. Or set think in arrivals"
            ),
        ),
        (
            tenant(arrivals="{type: closed, connections: 30000}"),
            "s.yaml:6: error: spec.tenants[0].arrivals.connections is 30000, but it must be at most 20000",
        ),
        (
            tenant(more="    begin: 5s\n    end: 5s\n"),
            "s.yaml:9: error: spec.tenants[0].end is '5s', but it must be after begin",
        ),
        (
            tenant(more="    path: /x\n"),
            ("s.yaml:8: error: spec.tenants[0].path is '/x', but there is no such key here. Write it under request"),
        ),
        (
            tenant(more="    request: {path: x, method: get}\n"),
            "s.yaml:8: error: spec.tenants[0].request.method is 'get', but it must be in upper case",
        ),
        (
            tenant(arrivals="{type: closed, connections: 1}", more="    retries: {most: 1}\n"),
            (
                "s.yaml:8: error: spec.tenants[0].retries is {most: 1}, but a closed loop doesn't take it. A"
                " closed loop sends further requests anyway, after its pause"
            ),
        ),
        (
            tenant(more="    calls: [nobody]\n"),
            (
                "s.yaml:8: error: spec.tenants[0].calls[0] is 'nobody', but it must be a tenant with arrivals"
                " {type: called}"
            ),
        ),
        (
            f"{HEAD}  duration: 5s\n  warmUp: 5s\n{TENANT}",
            "s.yaml:5: error: spec.warmUp is '5s', but it must be shorter than duration, which is 5s",
        ),
        (
            f"{HEAD}  warmUp: 2m\n{TENANT}",
            "s.yaml:4: error: spec.warmUp is '2m', but it must be shorter than duration, which is 1m",
        ),
        (
            f"{HEAD}  duration: 0s\n{TENANT}",
            "s.yaml:4: error: spec.duration is '0s', but it must be more than zero",
        ),
        (
            f"{HEAD}{TENANT}---\n{HEAD}{TENANT}",
            (
                "s.yaml:10 (document 2): error: kind is 'Scenario', but there can be only one Scenario, and s.yaml:1"
                " has it already"
            ),
        ),
        (
            f"{HEAD}{TENANT}---\napiVersion: apf/v1\nkind: Server\nspec: {{seats: 0}}\n",
            "s.yaml:11 (document 2): error: spec.seats is 0, but it must be at least 1",
        ),
    ],
)
def test_what_is_wrong_is_reported_with_file_line_and_field(text: str, expected: str) -> None:
    assert expected in [problem.replace(" (document 1)", "") for problem in problems(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (tenant(more="    retries: {most: 2, on: [failed]}\n"), "on[0] is 'failed', but it must be 'rejected'"),
        (tenant(more="    retries: {most: 2, on: []}\n"), "on is [], but it must have at least 1"),
        (tenant("{type: mixture, of: [{weight: 0, duration: 1s}]}"), "of[0].weight is 0, but it must be more than"),
        (tenant("{type: mixture, of: []}"), "of is [], but it must have at least 1"),
    ],
)
def test_only_an_empty_list_is_too_short(text: str, expected: str) -> None:
    [problem] = problems(text)
    assert expected in problem


def test_circular_calls_are_refused() -> None:
    called = "    arrivals: {type: called}\n    service: 1ms\n"
    text = f"{HEAD}  tenants:\n  - name: a\n{called}    calls: [b]\n  - name: b\n{called}    calls: [a, b]\n"

    found = problems(text)

    assert len(found) == 2
    assert "spec.tenants[1].calls[0] is 'a', but it must stand below the tenant that calls it" in found[0]
    assert "spec.tenants[1].calls[1] is 'b', but" in found[1]


def test_two_tenants_of_one_name_are_refused() -> None:
    text = f"{HEAD}{TENANT}" + TENANT.partition("\n")[2]

    assert "spec.tenants[1].name is 't', but another tenant has the same" in " ".join(problems(text))


def test_too_many_callers_are_refused() -> None:
    text = tenant(arrivals="{type: closed, connections: 2000}", more="    count: 11\n")

    assert "but there must be at most 20000 clients and connections, and there are 22000" in " ".join(problems(text))


def test_a_reading_with_problems_raises_an_error_with_all_of_them() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_scenario_text(tenant("20", "{type: poisson}")).unwrap()

    assert len(caught.value.problems) == 2


def with_members(members: str, more: str = "") -> str:
    return f"{HEAD}  members: {members}\n{more}{TENANT}"


def test_a_number_of_members_is_their_short_form() -> None:
    scenario, _ = read_scenario_text(with_members("20")).unwrap()

    assert scenario.members is not None
    assert scenario.members.count == 20
    assert scenario.members.delay == UniformDuration(100_000, 1_000_000)
    assert scenario.members.loss == 0
    assert scenario.members.events == ()


def test_all_that_can_happen_to_members_can_be_written() -> None:
    text = """{count: 4, delay: {type: exponential, mean: 2ms}, loss: 0.01, division: 5ms, events: [
    {type: crash, at: 2s, duration: 1s, members: [0, 3]}, {type: partition, at: 3s, members: [1]},
    {type: allocator-crash, at: 4s}]}"""
    scenario, _ = read_scenario_text(with_members(text, "  balancing: sticky\n")).unwrap()

    assert scenario.members is not None
    assert [event.type for event in scenario.members.events] == ["crash", "partition", "allocator-crash"]
    assert scenario.members.events[0].members == (0, 3)
    assert scenario.members.events[0].duration_ns == 10**9
    assert scenario.members.events[2].duration_ns is None
    assert scenario.members.division_ns == 5_000_000


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("0", "spec.members is 0, but it must be at least 1"),
        ("{count: 10001}", "spec.members.count is 10001, but it must be at most 10000"),
        ("{count: 2, loss: 1}", "spec.members.loss is 1, but it must be less than 1.0"),
        ("{count: 2, interval: 1s}", "Write it under fleet in the Server document"),
        ("{count: 2, events: [{type: crash, at: 1s, members: [2]}]}", "it must be less than 2"),
        ("{count: 2, events: [{type: crash, at: 1s}]}", "it must have the numbers of members"),
        ("{count: 2, events: [{type: allocator-crash, at: 1s, members: [1]}]}", "an allocator has none"),
    ],
)
def test_members_have_rules(members: str, expected: str) -> None:
    [problem] = problems(with_members(members))
    assert expected in problem


def test_members_created_in_python_have_the_same_bounds() -> None:
    with pytest.raises(InvalidValueError, match=r"loss is 1.0, but it must be less than 1"):
        ScenarioMembers(2, loss=1.0)


def test_events_need_a_fleet_in_the_configuration_with_which_they_are_simulated(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    text = with_members("{count: 2, events: [{type: crash, at: 1s, members: [0]}]}")
    path.write_text(text)

    [problem] = read_scenario([path], together=True).problems
    rule = "spec.members.events[0].type is 'crash', but events happen to a fleet, and the server has none"
    assert str(problem) == f"{path}:4 (document 1): error: {rule}. Write fleet in the Server document"
    with pytest.raises(ConfigurationError, match="events happen to a fleet"):
        read_scenario([path], together=True).unwrap()
    assert not read_scenario([path]).problems, "it may be for configurations in other files"

    path.write_text(f"{text}---\napiVersion: apf/v1\nkind: Server\nspec: {{fleet: {{name: shop}}}}\n")
    assert not read_scenario([path], together=True).problems


def test_members_take_the_place_of_servers() -> None:
    [problem] = problems(with_members("2", "  servers: 2\n"))
    assert "members take the place of servers" in problem
    assert not problems(with_members("2"))
