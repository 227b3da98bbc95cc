"""The row about a configuration that is tried: what would be otherwise, and whether the trial can be trusted.

Its levels may have other names than those in force, so the level that is chosen at the top doesn't apply.
"""

from grafana.panels import Query, Row, timeseries
from grafana.queries import BY_LEVEL, SERVED, SERVER, WAITS, server_rate

__all__ = ["shadow"]


def _gauge(name: str) -> str:
    return f"sum by (priority_level) (apf_shadow_{name}{{{SERVER}}})"


def shadow() -> Row:
    waits = server_rate(f"shadow_{WAITS}_bucket", "priority_level, le", SERVED)
    return Row(
        "Shadow",
        [
            timeseries(
                "Decisions, here and there",
                "First that of the configuration in force, then that of the shadow.",
                Query(server_rate("shadow_decisions_total", "real, shadow"), "{{real}}, {{shadow}}"),
                unit="reqps",
            ),
            timeseries(
                "Would be rejected",
                "By the configuration that is tried.",
                Query(
                    server_rate("shadow_rejected_requests_total", "priority_level, reason"),
                    "{{priority_level}}: {{reason}}",
                ),
                unit="reqps",
            ),
            timeseries(
                "Would wait, 99 %",
                "One of a hundred that would be served would wait longer.",
                Query(f"histogram_quantile(0.99, {waits})", BY_LEVEL),
                unit="s",
            ),
            timeseries(
                "Would get seats",
                "At once or after waiting.",
                Query(server_rate("shadow_dispatched_requests_total", "priority_level"), BY_LEVEL),
                unit="reqps",
                width=6,
            ),
            timeseries(
                "Would wait now",
                "Requests in the queues of the configuration that is tried.",
                Query(_gauge("current_inqueue_requests"), BY_LEVEL),
                width=6,
            ),
            timeseries(
                "Seats that would be in use",
                "Also those that linger after a reply.",
                Query(_gauge("current_executing_seats"), BY_LEVEL),
                width=6,
            ),
            timeseries(
                "Limits that would apply",
                "Nominal ones by shares; the others with what is borrowed and without what is lent.",
                Query(_gauge("current_limit_seats"), BY_LEVEL),
                Query(_gauge("nominal_limit_seats"), "{{priority_level}}, nominal"),
                width=6,
            ),
            timeseries(
                "Classified otherwise",
                "Requests that are at another level or under another schema in the configuration in force.",
                Query(
                    server_rate("shadow_classified_otherwise_total", "priority_level, flow_schema"),
                    "{{flow_schema}}: {{priority_level}}",
                ),
                unit="reqps",
                width=6,
            ),
            timeseries(
                "Requests of the shadow",
                "All that it has seen, and those that end there after an assumed time: they weren't served here.",
                Query(server_rate("shadow_requests_total", "job"), "{{job}}: seen"),
                Query(server_rate("shadow_assumed_durations_total", "job"), "{{job}}: assumed"),
                unit="reqps",
                width=6,
            ),
            timeseries(
                "Lag of the shadow",
                "How far its clock is behind, because durations aren't known yet.",
                Query(f"max by (instance) (apf_shadow_lag_seconds{{{SERVER}}})", "{{instance}}"),
                unit="s",
                width=6,
            ),
            timeseries(
                "Shadows that have failed",
                "An error ends a shadow for good; the log has it.",
                Query(f"sum by (instance) (apf_shadow_failed{{{SERVER}}})", "{{instance}}"),
                width=6,
            ),
        ],
    )
