"""The format that a scraper asks for, and metrics written in it.

prometheus_client repeats the requested version in its answer, and ignores preferences. So it is given only a format
that it supports, the most preferred one.
"""

import gzip
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from apf_middleware.accept import parse_accept
from apf_middleware.metrics.collector import APFCollector
from apf_middleware.metrics.text import rewrite_numbers

__all__ = ["accepts_gzip", "compress", "preferred_format", "render"]

_ESCAPINGS: Final = frozenset({"allow-utf-8", "underscores"})  # those that leave names like ours as they are
_OPEN_METRICS: Final = "application/openmetrics-text"
_TEXT: Final = "text/plain"


def render(accept: str, source: CollectorRegistry | APFCollector) -> tuple[bytes, str]:
    """Return all metrics of a registry or, much faster, of one collector, in the format that ``accept`` prefers.

    The result is the text and its content type.
    """
    encoder, content_type = choose_encoder(preferred_format(accept))
    open_metrics = content_type.startswith(_OPEN_METRICS)
    if isinstance(source, APFCollector):
        return source.write(open_metrics=open_metrics), content_type
    return rewrite_numbers(encoder(source), open_metrics=open_metrics), content_type


def compress(body: bytes, accept_encoding: str) -> tuple[bytes, bool]:
    """Return ``body``, as gzip if an ``Accept-Encoding`` header allows it, and whether it is gzip."""
    return (gzip.compress(body, compresslevel=1), True) if accepts_gzip(accept_encoding) else (body, False)


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an ``Accept-Encoding`` header allows gzip."""
    return any(one.name in {"gzip", "x-gzip"} and one.quality > 0 for one in parse_accept(accept_encoding))


def preferred_format(accept: str) -> str:
    """Return the most preferred of the supported formats; empty for the oldest one."""
    wanted = [
        one for one in parse_accept(accept) if one.name in {_OPEN_METRICS, _TEXT, "*/*", "text/*"} and one.quality > 0
    ]
    wanted.sort(key=lambda one: one.quality, reverse=True)
    for name, _, parameters in wanted:
        version = parameters.get("version", "")
        modern = version == "1.0.0" or (name == _OPEN_METRICS and not version)
        if modern and name in {_OPEN_METRICS, _TEXT}:
            escaping = parameters.get("escaping", "")
            suffix = f";escaping={escaping}" if escaping in _ESCAPINGS else ""
            return f"{name};version=1.0.0{suffix}"
        if name != _OPEN_METRICS and version in {"", "0.0.4"}:
            return ""
    return ""
