"""Comparison of two results of the same arrivals: the changes for each tenant, in words."""

import math
from collections.abc import Iterator

from apf_middleware.simulation.results import Result, TenantResult
from apf_middleware.wording import figure

__all__ = ["describe_changes"]

_SERVED = 0.01  # of the requests
_FASTER = 1.1
_LEAST_MS = 1.0
_MORE = 1.05


def describe_changes(before: Result, after: Result) -> list[str]:
    """Return a line for each tenant that sees a change, the largest change first, and one for the server."""
    tenants = [(one, after.tenant(one.name)) for one in before.tenants]
    tenants.sort(key=lambda pair: -abs(_served_change(*pair)))
    lines = [(one.name, _tenant_line(one, other)) for one, other in tenants]
    same = [name for name, line in lines if not line]
    nothing = [f"Nothing changes for {', '.join(same)}."] if same else []
    return [*(line for _, line in lines if line), *nothing, _server_line(before, after)]


def _served_change(before: TenantResult, after: TenantResult) -> float:
    return (after.served_part or 0.0) - (before.served_part or 0.0)


def _tenant_line(before: TenantResult, after: TenantResult) -> str:
    changes = list(_changes(before, after))
    if not changes:
        return ""
    signs = {sign for sign, _ in changes}
    verdict = "gains and loses" if len(signs) == 2 else "gains" if signs == {1} else "loses"
    return f"{before.name} {verdict}: {'; '.join(text for _, text in changes)}."


def _changes(before: TenantResult, after: TenantResult) -> Iterator[tuple[int, str]]:
    """Yield each change as a sign (1 for better, -1 for worse) and its description."""
    one, other = before.served_part, after.served_part
    if one is not None and other is not None and abs(other - one) >= _SERVED:
        yield (1 if other > one else -1), f"{_percent(other)} of its requests are served instead of {_percent(one)}"
    if before.p99_ms is not None and after.p99_ms is not None:
        yield from _faster("p99", before.p99_ms, after.p99_ms)
    if before.p50_ms is not None and after.p50_ms is not None:
        yield from _faster("p50", before.p50_ms, after.p50_ms)
    if _ratio(before.rate, after.rate) >= _MORE and (one is None or other is None or abs(other - one) < _SERVED):
        yield (
            (1 if after.rate > before.rate else -1),
            f"{figure(after.rate, 4)} a second are served instead of {figure(before.rate, 4)}",
        )


def _faster(name: str, one: float, other: float) -> Iterator[tuple[int, str]]:
    ratio = _ratio(one, other)
    if ratio < _FASTER or abs(one - other) < _LEAST_MS:
        return
    is_better = other < one
    factor = f" ({figure(ratio, 2)} times as {'fast' if is_better else 'slow'})" if math.isfinite(ratio) else ""
    yield (1 if is_better else -1), f"its {name} is {_ms(other)} instead of {_ms(one)}{factor}"


def _ratio(one: float, other: float) -> float:
    small, large = sorted((one, other))
    if not large:
        return 1.0
    return large / small if small else math.inf


def _server_line(before: Result, after: Result) -> str:
    parts = [
        f"{_percent(after.goodput)} of the backend's capacity goes into answers in time, was {_percent(before.goodput)}"
    ]
    if max(before.wasted, after.wasted) >= _SERVED:
        parts.append(f"{_percent(after.wasted)} of its work is wasted, was {_percent(before.wasted)}")
    if before.fairness is not None and after.fairness is not None:
        parts.append(f"fairness {after.fairness:.2f}, was {before.fairness:.2f}")
    return f"Server: {'; '.join(parts)}."


def _percent(part: float) -> str:
    percent = 100 * part
    return f"{percent:.0f} %" if abs(percent - round(percent)) < 0.05 or percent < 99 else f"{percent:.1f} %"


def _ms(milliseconds: float) -> str:
    return f"{figure(milliseconds / 1000)} s" if milliseconds >= 1000 else f"{milliseconds:.3g} ms"
