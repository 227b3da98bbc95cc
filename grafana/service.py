"""The rows about the service of requests: an overview, level by level, and how long they wait."""

from grafana.panels import Json, Query, Row, heatmap, stat, table, timeseries
from grafana.queries import (
    BY_LEVEL,
    NOT_LEFT,
    SERVED,
    SERVER,
    UNSERVED,
    UTILIZATION,
    WAITS,
    average,
    buckets,
    gauge,
    limit,
    part_of_time_above,
    quantile,
    rate,
    rejected_part,
)

__all__ = ["level", "overview", "waiting"]


def overview() -> Row:
    numbers = [
        stat(
            "Seats in use",
            "Of all seats of the chosen servers. Long above 0.9 with requests waiting: more is asked than there is.",
            Query(f"sum(apf_current_executing_seats{{{SERVER}}}) / sum(apf_server_seats{{{SERVER}}})"),
            unit="percentunit",
            steps=((0.9, "orange"), (1.05, "red")),
        ),
        stat(
            "Dispatched", "Requests that were given seats.", Query(rate("dispatched_requests_total", "")), unit="reqps"
        ),
        stat(
            "Rejected",
            "Part of all requests; those whose clients left while they waited are not counted.",
            Query(rejected_part("")),
            unit="percentunit",
            steps=((0.01, "orange"), (0.05, "red")),
        ),
        stat("Waiting", "Requests in queues now.", Query(gauge("current_inqueue_requests", ""))),
        stat(
            "Wait of 99 %",
            "One of a hundred that were served waited longer.",
            Query(quantile(0.99, WAITS, "", SERVED)),
            unit="s",
            steps=((1, "orange"), (5, "red")),
        ),
        stat("Servers", "Instances that tell their metrics.", Query(f"count(apf_server_seats{{{SERVER}}})")),
    ]
    return Row("Overview", [*numbers, *_overview_courses(), _levels_now()])


def _overview_courses() -> list[Json]:
    return [
        timeseries(
            "Requests",
            "What becomes of requests.",
            Query(rate("dispatched_requests_total", ""), "dispatched"),
            Query(rate("rejected_requests_total", "reason"), "{{reason}}"),
            unit="reqps",
            stack=True,
        ),
        timeseries(
            "Seats in use, by level",
            "Stacked; what exempt levels use comes on top of what the others share.",
            Query(gauge("current_executing_seats"), BY_LEVEL),
            stack=True,
        ),
        timeseries(
            "Waiting, by level",
            "Requests in queues.",
            Query(gauge("current_inqueue_requests"), BY_LEVEL),
            stack=True,
        ),
    ]


def _levels_now() -> Json:
    columns = [
        ("nominal", Query(limit("nominal_limit_seats"))),
        ("limit now", Query(gauge("current_limit_seats"))),
        ("in use", Query(gauge("current_executing_seats"))),
        ("waiting", Query(gauge("current_inqueue_requests"))),
        ("dispatched/s", Query(rate("dispatched_requests_total"))),
        ("rejected/s", Query(rate("rejected_requests_total", where=NOT_LEFT))),
    ]
    return table("Levels now", "Seats, requests that wait, and what becomes of requests.", columns)


def level() -> Row:
    """Repeated for each level that is chosen."""
    return Row("Level $level", [*_level_seats(), *_level_requests()], repeat="level")


def _level_seats() -> list[Json]:
    limits = [
        Query(gauge("current_executing_seats"), "in use"),
        Query(gauge("current_inqueue_seats"), "asked for"),
        Query(gauge("current_limit_seats"), "limit now"),
        Query(limit("nominal_limit_seats"), "nominal"),
        Query(limit("lower_limit_seats"), "min"),
        Query(limit("upper_limit_seats"), "max"),
    ]
    parts = [
        Query(average(UTILIZATION), "seats"),
        Query(part_of_time_above("0.9"), "time with more than 0.9 of the seats"),
        Query(average("priority_level_request_utilization", where=', phase="waiting"'), "queues"),
    ]
    description = "Averages over time: seats in use divided by the limit, waiting requests by the room in the queues."
    return [
        timeseries("Seats", "In use above nominal: borrowed. Limit now below nominal: lent.", *limits),
        timeseries("How full", description, *parts, unit="percentunit"),
    ]


def _level_requests() -> list[Json]:
    schema = "{{flow_schema}}"
    return [
        timeseries(
            "Requests now",
            "Those that execute, streams until they began, and those that wait.",
            Query(gauge("current_executing_requests"), "executing"),
            Query(gauge("current_inqueue_requests"), "waiting"),
        ),
        timeseries(
            "Dispatched, by schema",
            "Requests that were given seats, at once or after waiting.",
            Query(rate("dispatched_requests_total", "flow_schema"), schema),
            unit="reqps",
            stack=True,
        ),
        timeseries(
            "Rejected, by schema",
            "Also those whose clients left while they waited.",
            Query(rate("rejected_requests_total", "flow_schema"), schema),
            unit="reqps",
            stack=True,
        ),
        timeseries(
            "Execution time",
            "How long requests keep their seats; streams count until they began.",
            Query(quantile(0.5, "request_execution_seconds"), "50 %"),
            Query(quantile(0.99, "request_execution_seconds"), "99 %"),
            unit="s",
        ),
    ]


def waiting() -> Row:
    return Row(
        "Waiting",
        [
            heatmap("Wait of the served", "Darker: more requests.", Query(buckets(WAITS, SERVED), "{{le}}")),
            heatmap("Wait of the rejected", "Those at 0 never waited.", Query(buckets(WAITS, UNSERVED), "{{le}}")),
            heatmap(
                "Execution of requests",
                "How long seats were kept by requests that aren't streams.",
                Query(buckets("request_execution_seconds", ', type="regular"'), "{{le}}"),
            ),
            timeseries(
                "Wait, 50 %",
                "Half of those that were served waited longer.",
                Query(quantile(0.5, WAITS, where=SERVED), BY_LEVEL),
                unit="s",
            ),
            timeseries(
                "Wait, 99 %",
                "One of a hundred that were served waited longer.",
                Query(quantile(0.99, WAITS, where=SERVED), BY_LEVEL),
                unit="s",
            ),
            timeseries(
                "Until streams began",
                "How long WebSockets and streams kept their seats, 99 %.",
                Query(quantile(0.99, "request_execution_seconds", where=', type="watch"'), BY_LEVEL),
                unit="s",
            ),
            timeseries(
                "Open streams",
                "Requests that gave their seats back and go on.",
                Query(gauge("open_streams"), BY_LEVEL),
            ),
            timeseries(
                "Bodies on their way",
                "Requests without seats whose bodies clients are still sending.",
                Query(gauge("receiving_requests"), BY_LEVEL),
            ),
            timeseries(
                "Bodies kept",
                "Bytes of bodies that are kept until their requests have seats, by server.",
                Query(f"sum by (instance) (apf_body_buffer_bytes{{{SERVER}}})", "{{instance}}"),
                unit="bytes",
            ),
        ],
    )
