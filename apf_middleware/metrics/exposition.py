"""Metrics as text, in the format that a scraper asks for.

What is asked comes from outside. prometheus_client repeats the version that was asked for in the answer and follows no
preferences, so it is given only what it really has, in the order of preference.
"""

import gzip
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from apf_middleware.metrics.collector import APFCollector
from apf_middleware.metrics.numbers import rewrite_numbers

__all__ = ["compress", "render"]

_ESCAPINGS: Final = frozenset({"allow-utf-8", "underscores"})  # those that leave names like ours as they are
_OPEN_METRICS: Final = "application/openmetrics-text"
_TEXT: Final = "text/plain"


def render(accept: str, source: CollectorRegistry | APFCollector) -> tuple[bytes, str]:
    """All metrics of a registry, or of one collector and much quicker, for what an ``Accept`` header asks.

    The result is the text and its content type.
    """
    encoder, content_type = choose_encoder(_understood(accept))
    open_metrics = content_type.startswith(_OPEN_METRICS)
    if isinstance(source, APFCollector):
        return source.write(open_metrics=open_metrics), content_type
    return rewrite_numbers(encoder(source), open_metrics=open_metrics), content_type


def compress(body: bytes, accept_encoding: str) -> tuple[bytes, bool]:
    """``body``, as gzip if an ``Accept-Encoding`` header allows it, and whether it is."""
    wanted = any(
        name in {"gzip", "x-gzip"} and _quality(parameters) > 0 for name, parameters in _entries(accept_encoding)
    )
    return (gzip.compress(body, compresslevel=1), True) if wanted else (body, False)


def _understood(accept: str) -> str:
    """Of what is accepted the formats that there are, the most wanted first; empty for the oldest of them."""
    wanted = [
        (_quality(parameters), name, parameters)
        for name, parameters in _entries(accept)
        if name in {_OPEN_METRICS, _TEXT, "*/*", "text/*"} and _quality(parameters) > 0
    ]
    wanted.sort(key=lambda entry: entry[0], reverse=True)
    for _, name, parameters in wanted:
        version = parameters.get("version", "")
        modern = version == "1.0.0" or (name == _OPEN_METRICS and not version)
        if modern and name in {_OPEN_METRICS, _TEXT}:
            escaping = parameters.get("escaping", "")
            suffix = f";escaping={escaping}" if escaping in _ESCAPINGS else ""
            return f"{name};version=1.0.0{suffix}"
        if name != _OPEN_METRICS and version in {"", "0.0.4"}:
            return ""
    return ""


def _entries(header: str) -> list[tuple[str, dict[str, str]]]:
    """The entries of a header that lists what is accepted, with their parameters; names in lower case."""
    entries = []
    for entry in header.split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        entries.append((name.lower(), {key.strip().lower(): value.strip() for key, _, value in pairs}))
    return entries


def _quality(parameters: dict[str, str]) -> float:
    """How much it is wanted, from 0 to 1; what can't be read is wanted in full."""
    try:
        quality = float(parameters.get("q", "1"))
    except ValueError:
        return 1.0
    return quality if 0 <= quality <= 1 else 1.0
