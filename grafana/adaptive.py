"""The row about an adaptive number of seats: the number within its bounds, what was measured, and why it changed."""

from grafana.panels import Query, Row, timeseries
from grafana.queries import SERVER, server_rate

__all__ = ["adaptive"]


def _sum(name: str) -> str:
    return f"sum(apf_{name}{{{SERVER}}})"


def adaptive() -> Row:
    return Row(
        "Adaptive seats",
        [
            timeseries(
                "Seats of the servers",
                "Found by the servers. At the upper bound, raise it; at the lower one, something behind is in trouble.",
                Query(_sum("server_seats"), "seats"),
                Query(_sum("adaptive_least_seats"), "least"),
                Query(_sum("adaptive_largest_seats"), "largest"),
                width=9,
            ),
            timeseries(
                "Mean duration",
                "Of the recent requests. If it grows while the seats shrink, what is behind has become slower.",
                Query(f"max by (instance) (apf_adaptive_duration_seconds{{{SERVER}}})", "{{instance}}"),
                unit="s",
                width=6,
            ),
            timeseries(
                "Decisions",
                "By reason; held-unused means that there was no need for more.",
                Query(server_rate("adaptive_decisions_total", "reason"), "{{reason}}"),
                unit="ops",
                stack=True,
                width=9,
            ),
        ],
    )
