"""The report about a configuration that is tried, as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from apf_middleware.classification.text import printable
from apf_middleware.cli.output import align
from apf_middleware.snapshots.shadow import ShadowSnapshot, ShadowWaits
from apf_middleware.wording import plural

__all__ = ["shadow_lines"]

_MOST_NAME: Final = 40
_MOST_PAIRS: Final = 10
_MOST_FLOWS: Final = 10
_LEVELS: Final = ("LEVEL", "SEATS", "AVERAGE", "PEAK", "AT-ONCE", "WAITED", "P50", "P90", "P99", "REJECTED")
_SCHEMAS: Final = ("SCHEMA", "LEVEL", "REQUESTS", "OTHERWISE", "AT-ONCE", "WAITED", "P99", "REJECTED", "AGREE")
_FLOWS: Final = ("FLOW", "SCHEMA", "REQUESTS", "OTHERWISE", "WAITED", "P99", "REJECTED")
_LEFT: Final = frozenset({"LEVEL", "SCHEMA", "FLOW"})


def shadow_lines(found: ShadowSnapshot) -> Iterator[str]:
    """Yield the lines of a report."""
    yield from _summary(found)
    for one in found.differences[:_MOST_PAIRS]:
        yield ""
        yield f"{plural(one.requests, 'request')}: {one.real_schema} ({one.real_level}) → {one.schema} ({one.level})"
        for example in one.examples:
            yield f"  {printable(example.method, most=20)} {printable(example.path)} by {printable(example.user)}"
    if found.levels:
        yield ""
        yield from align([_LEVELS, *_level_rows(found)], _LEFT)
    if found.schemas:
        yield ""
        yield from align([_SCHEMAS, *_schema_rows(found)], _LEFT)
    if found.flows:
        yield ""
        yield from align([_FLOWS, *_flow_rows(found)], _LEFT)
    if found.caveats:
        yield ""
        yield from (f"Note: {caveat}" for caveat in found.caveats)


def _summary(found: ShadowSnapshot) -> Iterator[str]:
    yield f"{printable(found.source)}: {plural(found.requests, 'request')} in {found.seconds:.0f} s"
    if found.error is not None:
        yield f"failed, and sees no requests any more: {printable(found.error)}"
    yield f"classified otherwise: {_part(found.otherwise, found.requests)}"
    if not found.classify_only:
        yield f"same outcome (at once, waited, rejected): {_part(found.agreeing, found.decided)}"
        for one in found.decisions:
            if one.real != one.shadow:
                yield f"  {one.real} here, {one.shadow} there: {one.requests:,}"
    for number, what in (
        (found.unplaced, "have no place there"),
        (found.assumed, "ended after the usual time of similar ones, because they weren't served here"),
        (found.unestimated, "have the seats that are estimated here"),
    ):
        if number:
            yield f"{number:,} requests {what}"
    if found.lag >= 1:
        yield f"the report is {found.lag:.1f} s behind: some requests have seats there and still wait here"


def _part(number: int, whole: int) -> str:
    return f"{number:,} of {whole:,}" + (f" ({100 * number / whole:.2f} %)" if whole else "")


def _level_rows(found: ShadowSnapshot) -> Iterator[Sequence[str]]:
    for one in found.levels:
        if one.at_once or one.waits.requests or one.rejected or one.waiting:
            seats = str(one.seats_in_use) if one.exempt else f"{one.seats_in_use}/{one.nominal}"
            waits = one.waits
            quantiles = (_seconds(waits.p50), _seconds(waits.p90), _seconds(waits.p99))
            counts = (f"{one.at_once:,}", f"{waits.requests:,}", *quantiles, _rejected(one.rejected))
            yield printable(one.level, most=_MOST_NAME), seats, f"{one.average:.1f}", str(one.peak), *counts


def _schema_rows(found: ShadowSnapshot) -> Iterator[Sequence[str]]:
    for one in found.schemas:
        agree = f"{100 * one.agreeing / one.decided:.2f}%" if one.decided else "-"
        names = printable(one.schema, most=_MOST_NAME), printable(one.level, most=_MOST_NAME)
        yield (
            *names,
            f"{one.requests:,}",
            f"{one.otherwise:,}",
            f"{one.at_once:,}",
            *_waited(one.waits),
            _rejected(one.rejected),
            agree,
        )


def _flow_rows(found: ShadowSnapshot) -> Iterator[Sequence[str]]:
    for one in found.flows[:_MOST_FLOWS]:
        names = printable(one.flow, most=_MOST_NAME) or "(all requests)", printable(one.schema, most=_MOST_NAME)
        yield *names, f"{one.requests:,}", f"{one.otherwise:,}", *_waited(one.waits), _rejected(one.rejected)


def _waited(waits: ShadowWaits) -> tuple[str, str]:
    return f"{waits.requests:,}", _seconds(waits.p99)


def _seconds(duration: float | None) -> str:
    return "-" if duration is None else f"{duration:.3f}s"


def _rejected(reasons: Mapping[str, int]) -> str:
    return ",".join(f"{reason}:{number:,}" for reason, number in reasons.items()) or "0"
