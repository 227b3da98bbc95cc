"""Results of simulations as tables for people."""

from collections.abc import Iterable, Sequence

from apf_middleware.cli.output import align, narrow, tell, terminal_width
from apf_middleware.simulation import LevelResult, Result, TenantResult
from apf_middleware.simulation.fleet.comparison import LayoutRow
from apf_middleware.simulation.results import MemberResult
from apf_middleware.wording import figure, plural

__all__ = ["in_ms", "in_percent", "print_layouts", "print_levels", "print_members", "print_table", "print_tenants"]

_TENANT = ("tenant", "requests", "served", "p50", "p90", "p99", "per s", "seats", "rejected", "timed out", "fair part")
_DISPENSABLE = ("seats", "p90", "per s", "timed out", "fair part")  # in this order
_LOAD = ("seats", "dispatched", "rejected", "wait p50", "wait p99")
_LAYOUT = ("layout", "goodput", "served", "wait p50", "wait p99", "most in use", "largest deviation")
_MOST_MEMBERS = 40  # in the table


def print_tenants(result: Result) -> None:
    """Print the results of each tenant, and of the server as a whole."""
    requests = plural(result.requests, "request")
    tell(f"{result.scenario}, {result.configuration}: {requests} in {result.seconds:g} s", "bold")
    print_table(_TENANT, map(_tenant, result.tenants), _DISPENSABLE)
    fairness = "-" if result.fairness is None else f"{result.fairness:.3f}"
    tell(f"goodput {in_percent(result.goodput)}, wasted {in_percent(result.wasted)}, fairness {fairness}")


def print_levels(result: Result) -> None:
    """Print the results of the levels that had requests."""
    print_table(
        ("level", "nominal", *_LOAD),
        (
            (level.name, "exempt" if level.exempt else str(level.nominal), *_load(level))
            for level in result.levels
            if level.dispatched or level.rejected
        ),
    )


def print_members(result: Result) -> None:
    """Print the results of each member, and the seats that all of them used together."""
    fleet = result.fleet
    if fleet is None:
        return
    shown = fleet.members[:_MOST_MEMBERS]
    print_table(("member", *_LOAD), ((str(member.number), *_load(member)) for member in shown))
    if len(shown) < len(fleet.members):
        tell(f"and {len(fleet.members) - len(shown):,} more; --output json has all of them", "dim")
    excess = f", {figure(fleet.excess_seat_s)} seat-seconds beyond them" if fleet.excess_seat_s else ""
    tell(f"at most {fleet.most_in_use:,} of {plural(fleet.budget, 'seat')} in use at one moment{excess}")


def print_layouts(rows: Sequence[LayoutRow]) -> None:
    """Print the layouts of the same scenario side by side."""
    print_table(
        _LAYOUT,
        (
            (
                row.layout,
                in_percent(row.goodput),
                in_percent(row.served),
                in_ms(row.wait_p50_ms),
                in_ms(row.wait_p99_ms),
                f"{row.most_in_use:,}",
                in_percent(row.deviation) + (f" ({row.deviating})" if row.deviation else ""),
            )
            for row in rows
        ),
    )


def _load(one: LevelResult | MemberResult) -> Sequence[str]:
    return (
        f"{one.seats:.2f}",
        f"{one.dispatched:,}",
        f"{one.rejected:,}",
        in_ms(one.wait_p50_ms),
        in_ms(one.wait_p99_ms),
    )


def _tenant(tenant: TenantResult) -> Sequence[str]:
    return (
        tenant.name,
        f"{tenant.requests:,}",
        in_percent(tenant.served_part),
        in_ms(tenant.p50_ms),
        in_ms(tenant.p90_ms),
        in_ms(tenant.p99_ms),
        f"{tenant.rate:.1f}",
        f"{tenant.seats:.2f}",
        f"{tenant.rejections:,}",
        f"{tenant.timeouts:,}",
        in_percent(tenant.fairness),
    )


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], dispensable: Sequence[str] = ()) -> None:
    """Print names left-aligned and numbers right-aligned, in lines that never wrap, so that grep finds them.

    On a narrow terminal, the ``dispensable`` columns are left out first, and then names are cut.
    """
    columns = {column[0]: list(column) for column in zip(header, *rows, strict=True)}
    narrow(columns, terminal_width(), dispensable)
    for number, line in enumerate(align(list(zip(*columns.values(), strict=True)), header[:1])):
        tell(line, "" if number else "dim")


def in_ms(milliseconds: float | None) -> str:
    """Return a duration with its unit."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.1f} ms"


def in_percent(part: float | None) -> str:
    """Return a part of a whole in percent."""
    return "-" if part is None else f"{100 * part:.1f} %"
