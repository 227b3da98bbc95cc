"""The row about event loops: how late they are, and what elastic levels may use meanwhile."""

from grafana.panels import Query, Row, timeseries
from grafana.queries import BY_LEVEL, SERVER, gauge, rate

__all__ = ["event_loop"]


def event_loop() -> Row:
    return Row(
        "Event loop",
        [
            timeseries(
                "Lag of event loops",
                "How late a loop runs what is ready: each request that awaits anything waits so long, again and again.",
                Query(
                    f'max by (instance) (apf_event_loop_lag_seconds{{{SERVER}, percentile="99"}})', "{{instance}}: 99 %"
                ),
                Query(
                    f'max by (instance) (apf_event_loop_lag_seconds{{{SERVER}, percentile="50"}})', "{{instance}}: half"
                ),
                unit="s",
            ),
            timeseries(
                "Caps of elastic levels",
                "What they may use at most. While no loop is late, that is their max.",
                Query(gauge("elastic_cap_seats"), BY_LEVEL),
            ),
            timeseries(
                "Changes of caps",
                "Cuts while a loop is late, and growth after that.",
                Query(rate("elastic_cap_changes_total", "priority_level, reason"), "{{priority_level}}: {{reason}}"),
                unit="ops",
            ),
        ],
    )
