"""The row about gates: which dependency keeps requests waiting, for how long, and whether its events arrive."""

from grafana.panels import Query, Row, timeseries
from grafana.queries import SERVER, SPAN

__all__ = ["gates"]

_GATE = "{{gate}}"


def _rate(name: str, by: str = "gate") -> str:
    return f"sum by ({by}) (rate(apf_gate_{name}{{{SERVER}}}[{SPAN}]))"


def gates() -> Row:
    return Row(
        "Gates",
        [
            timeseries(
                "Parked, by gate",
                "Requests that wait for a dependency or a quota: they take no seat.",
                Query(f"sum by (gate) (apf_parked_requests{{{SERVER}}})", _GATE),
            ),
            timeseries(
                "Wait at gates, 99 %",
                "How long a gate kept those waiting whom it kept waiting at all.",
                Query(f"histogram_quantile(0.99, {_rate('wait_seconds_bucket', 'gate, le')})", _GATE),
                unit="s",
            ),
            timeseries(
                "Rejected because of a gate",
                "What they need could not be had in time, or too many waited for it already.",
                Query(_rate("rejected_requests_total"), _GATE),
                unit="reqps",
            ),
            timeseries(
                "Asked, by answer",
                "An error is a gate that has raised: its on_error says what became of the request.",
                Query(_rate("evaluations_total", "gate, result"), "{{gate}}: {{result}}"),
                unit="ops",
                width=12,
            ),
            timeseries(
                "Events and rescues",
                "A rescue is an opening that no event told of: beyond a few, events are missing.",
                Query(_rate("events_total"), "{{gate}}: events"),
                Query(_rate("rescues_total"), "{{gate}}: rescues"),
                unit="ops",
                width=12,
            ),
        ],
    )
