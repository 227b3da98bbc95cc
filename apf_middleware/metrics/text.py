"""Our metrics as text without the way over prometheus_client's samples, for a server answers nobody while it writes.

Its general encoder takes 6 to 20 µs per line; here a series' labels are put together once for all of its buckets, and
nothing is escaped that needs it not. What comes out is the same to the byte.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client.utils import floatToGoString

from apf_middleware.metrics.families import Family, Point
from apf_middleware.metrics.ratios import Spread

__all__ = ["write_text"]

_number: Callable[[float], str] = floatToGoString


def write_text(prefix: str, families: Iterable[tuple[Family, list[Point]]], *, open_metrics: bool) -> bytes:
    """All series in one of the two text formats."""
    parts: list[str] = []
    for family, points in families:
        name = f"{prefix}_{family.suffix}"
        told = name.removesuffix("_total") if open_metrics else name
        parts.append(f"# HELP {told} {family.help}\n# TYPE {told} {family.kind}\n")
        parts += _histograms(name, family, points) if family.kind == "histogram" else _numbers(name, family, points)
    if open_metrics:
        parts.append("# EOF\n")
    return "".join(parts).encode()


def _numbers(name: str, family: Family, points: list[Point]) -> Iterator[str]:
    for labels, value in points:
        if not isinstance(value, Spread):
            written = ",".join(_written(family, labels))
            yield f"{name}{{{written}}} {_number(value)}\n" if written else f"{name} {_number(value)}\n"


def _histograms(name: str, family: Family, points: list[Point]) -> Iterator[str]:
    before = sum(label < "le" for label in family.labels)
    buckets = family.buckets
    for labels, spread in points:
        if isinstance(spread, Spread):
            written = _written(family, labels)
            head = f"{name}_bucket{{" + "".join(f"{one}," for one in written[:before]) + 'le="'
            tail = '"' + "".join(f",{one}" for one in written[before:]) + "} "
            count = "0.0"
            for le, number in zip(buckets, accumulate(spread.counts), strict=True):
                count = _number(number)
                yield f"{head}{le}{tail}{count}\n"
            every = f"{{{','.join(written)}}}"
            yield f"{name}_count{every} {count}\n{name}_sum{every} {_number(spread.total)}\n"


def _written(family: Family, labels: tuple[str, ...]) -> list[str]:
    """The labels in the order of their names."""
    pairs = sorted(zip(family.labels, labels, strict=True))
    return [f'{label}="{_escaped(value)}"' for label, value in pairs]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
