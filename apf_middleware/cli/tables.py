"""Results of simulations as tables for people."""

from collections.abc import Iterable, Sequence

from apf_middleware.cli.output import tell
from apf_middleware.simulation import Result, TenantResult

__all__ = ["in_ms", "in_percent", "print_levels", "print_table", "print_tenants"]

_TENANT = ("tenant", "requests", "served", "p50", "p90", "p99", "per s", "seats", "rejected", "timed out", "fair part")
_LEVEL = ("level", "nominal", "seats", "dispatched", "rejected", "wait p50", "wait p99")


def print_tenants(result: Result) -> None:
    """What each tenant got, and the server as a whole."""
    tell(f"{result.scenario}, {result.configuration}: {result.requests:,} requests in {result.seconds:g} s", "bold")
    print_table(_TENANT, map(_tenant, result.tenants))
    fairness = "-" if result.fairness is None else f"{result.fairness:.3f}"
    tell(f"goodput {in_percent(result.goodput)}, wasted {in_percent(result.wasted)}, fairness {fairness}")


def print_levels(result: Result) -> None:
    """What each level did that had anything to do."""
    print_table(
        _LEVEL,
        (
            (
                level.name,
                "exempt" if level.exempt else str(level.nominal),
                f"{level.seats:.2f}",
                f"{level.dispatched:,}",
                f"{level.rejected:,}",
                in_ms(level.wait_p50_ms),
                in_ms(level.wait_p99_ms),
            )
            for level in result.levels
            if level.dispatched or level.rejected
        ),
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


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Names to the left, numbers to the right; never broken, for people who grep."""
    lines = [header, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    for number, line in enumerate(lines):
        cells = (
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        tell("  ".join(cells).rstrip(), "" if number else "dim")


def in_ms(milliseconds: float | None) -> str:
    """A duration as people read it."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.1f} ms"


def in_percent(part: float | None) -> str:
    """A part of a whole."""
    return "-" if part is None else f"{100 * part:.1f} %"
