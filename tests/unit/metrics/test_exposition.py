import gzip

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from apf_middleware.metrics import compress, render
from tests.support.readings import FULL, QUEUE, Metrics, busy_counters, reading

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
PLAIN = "text/plain; version=0.0.4"
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.75,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.fixture
def registry() -> CollectorRegistry:
    return Metrics(FULL).registry


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html", PLAIN),
        ("text/plain", PLAIN),
        ("text/plain;version=0.0.4", PLAIN),
        ("text/plain;version=1.0.0", "text/plain; version="),  # the newer one, where prometheus_client has it
        ("application/openmetrics-text", OPEN_METRICS),
        ("APPLICATION/OpenMetrics-Text; version=1.0.0", OPEN_METRICS),
        (PROMETHEUS_2, OPEN_METRICS),
        (PROMETHEUS_3, OPEN_METRICS),
        ("application/openmetrics-text;version=0.0.1", PLAIN),
        ("application/openmetrics-text;version=1.0.0;q=0", PLAIN),
        ("application/openmetrics-text;version=1.0.0;q=0.1,text/plain;version=0.0.4", PLAIN),
        ("text/plain;q=0.1,application/openmetrics-text;version=1.0.0;q=0.2", OPEN_METRICS),
        ("application/openmetrics-text;q=much", OPEN_METRICS),
        ("application/openmetrics-text;q=nan", OPEN_METRICS),
    ],
)
def test_the_format_has_the_highest_quality(registry: CollectorRegistry, accept: str, expected: str) -> None:
    body, content_type = render(accept, registry)

    assert content_type.startswith(expected)
    assert body.endswith(b"# EOF\n") == (expected == OPEN_METRICS)
    nine = b"9.0" if expected == OPEN_METRICS else b"9"
    assert b'apf_dispatched_requests_total{flow_schema="users",priority_level="work"} ' + nine + b"\n" in body


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text;version=99.0",
        'application/openmetrics-text;version=1.0.0"><script>',
        "application/openmetrics-text;version=é",
        "application/openmetrics-text;version=1.0.0;escaping=x",
        "application/openmetrics-text;version=1.0.0;escaping=dots",
        ";;;,,,===",
        "application/openmetrics-text;version",
        "text/plain;version=1.0.0.0.0;escaping=dots",
        "," * 10_000,
    ],
)
def test_any_accept_header_gets_a_valid_content_type(registry: CollectorRegistry, accept: str) -> None:
    _, content_type = render(accept, registry)

    assert content_type.startswith(("text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"))
    assert "script" not in content_type
    assert not content_type.endswith(("escaping=x", "escaping=dots"))


def test_both_formats_have_the_same_values(registry: CollectorRegistry) -> None:
    plain = parse_text(render("", registry)[0].decode())
    modern = parse_open_metrics(render(OPEN_METRICS, registry)[0].decode())  # type: ignore[no-untyped-call]

    def samples(families: object) -> dict[tuple[str, frozenset[tuple[str, object]]], float]:
        return {
            (sample.name, frozenset({**sample.labels, "le": float(sample.labels.get("le", 0))}.items())): sample.value
            for family in families  # type: ignore[attr-defined]
            for sample in family.samples
        }

    found = samples(plain)
    assert len(found) > 200
    assert samples(modern) == found


NASTY = 'a"b\\c\nd,e}é'


@pytest.mark.parametrize("accept", ["", OPEN_METRICS, PROMETHEUS_3, "text/plain;version=1.0.0"])
def test_the_fast_writer_agrees_with_prometheus_client_except_in_numbers(accept: str) -> None:
    nasty = reading(
        QUEUE._replace(name=NASTY, demand={10**9: 10**18}),
        schema_counters=(busy_counters(NASTY, NASTY),),
        version=NASTY,
    )
    for shown in (FULL, nasty):
        metrics = Metrics(shown)

        assert render(accept, metrics.collector) == render(accept, metrics.registry)


@pytest.mark.parametrize("accept", ["gzip", "deflate, gzip;q=0.5", "GZIP", "x-gzip"])
def test_a_body_is_compressed_if_accepted(accept: str) -> None:
    body, compressed = compress(b"a" * 1000, accept)

    assert compressed
    assert len(body) < 100
    assert gzip.decompress(body) == b"a" * 1000


@pytest.mark.parametrize("accept", ["", "identity", "br", "gzip;q=0", "gzipped"])
def test_a_body_is_not_compressed_unless_accepted(accept: str) -> None:
    assert compress(b"abc", accept) == (b"abc", False)
