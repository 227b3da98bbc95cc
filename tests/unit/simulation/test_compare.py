"""What changes for whom, in words."""

from dataclasses import replace

from apf_middleware.simulation import Result, TenantResult
from apf_middleware.simulation.compare import describe_changes


def tenant(name: str, served: int = 100, p50: float | None = 10.0, p99: float | None = 50.0) -> TenantResult:
    return TenantResult(
        name=name,
        requests=100,
        served=served,
        failed=100 - served,
        tries=100,
        rejected={},
        timeouts=0,
        mean_ms=p50,
        p50_ms=p50,
        p90_ms=p99,
        p99_ms=p99,
        worst_ms=p99,
        rate=served / 10,
        seats=1.0,
        fairness=1.0,
    )


def result(*tenants: TenantResult, goodput: float = 0.5, wasted: float = 0.0) -> Result:
    return Result("s", "c", 10.0, 1.0, tenants, (), (), 1.0, goodput, wasted, 100, 100)


def test_tenants_are_listed_by_the_size_of_their_change() -> None:
    before = result(tenant("a"), tenant("b"), tenant("c", served=20, p50=None, p99=None), tenant("d"))
    after = result(tenant("a", p99=500.0), tenant("b"), tenant("c", served=100), tenant("d"), goodput=0.9)

    assert describe_changes(before, after) == [
        "c gains: 100 % of its requests are served instead of 20 %.",
        "a loses: its p99 is 500 ms instead of 50 ms (10 times as slow).",
        "Nothing changes for b, d.",
        "Server: 90 % of the backend's capacity goes into answers in time, was 50 %; fairness 1.00, was 1.00.",
    ]


def test_a_tenant_may_gain_and_pay() -> None:
    [line, _] = describe_changes(
        result(tenant("a", served=50, p50=20.0)), result(tenant("a", served=99, p50=10.0, p99=1500.0))
    )

    assert line == (
        "a gains and loses: 99 % of its requests are served instead of 50 %; its p99 is 1.5 s instead of 50 ms (30"
        " times as slow); its p50 is 10 ms instead of 20 ms (2 times as fast)."
    )


def test_more_requests_of_a_closed_loop_count_as_a_gain() -> None:
    more = replace(tenant("a"), rate=20.0)

    [line, _] = describe_changes(result(tenant("a")), result(more))

    assert line == "a gains: 20 a second are served instead of 10."


def test_small_changes_are_not_reported() -> None:
    lines = describe_changes(result(tenant("a")), result(tenant("a", p50=10.9, p99=54.0)))

    assert lines[0] == "Nothing changes for a."


def test_wasted_work_is_reported() -> None:
    [_, line] = describe_changes(result(tenant("a"), wasted=0.3), result(tenant("a"), goodput=0.999))

    assert "0 % of its work is wasted, was 30 %" in line
    assert line.startswith("Server: 99.9 % of")


def test_large_changes_have_no_exponents() -> None:
    [slow, _] = describe_changes(result(tenant("a")), result(tenant("a", p99=12_345.0)))
    assert slow == "a loses: its p99 is 12.3 s instead of 50 ms (247 times as slow)."

    [at_once, _] = describe_changes(result(tenant("a")), result(tenant("a", p50=0.0)))
    assert at_once == "a gains: its p50 is 0 ms instead of 10 ms."

    [more, _] = describe_changes(result(replace(tenant("a"), rate=9.0)), result(replace(tenant("a"), rate=12_345.6)))
    assert more == "a gains: 12,346 a second are served instead of 9."
