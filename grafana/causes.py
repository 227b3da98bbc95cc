"""The rows that tell why: fairness, rejections, borrowing, clients, servers."""

from grafana.panels import Json, Query, Row, bars, table, timeseries
from grafana.queries import (
    BY_LEVEL,
    LEVEL,
    NOT_LEFT,
    PREDICTED,
    REAL,
    SERVED,
    SERVER,
    SPAN,
    WAITS,
    average,
    gauge,
    limit,
    quantile,
    rate,
    rejected_part,
    server_rate,
)

__all__ = ["borrowing", "clients", "fairness", "rejections", "servers"]


def fairness() -> Row:
    return Row("Fairness", [*_between_flows(), *_widths()])


def _between_flows() -> list[Json]:
    return [
        timeseries(
            "Seats for each busy queue",
            "How fast virtual time R runs: what a flow gets that always has something waiting.",
            Query(f"avg by (priority_level) (clamp_min(deriv(apf_current_r{{{LEVEL}}}[{SPAN}]), 0))", BY_LEVEL),
        ),
        timeseries(
            "Between the first and the last queue",
            "Virtual starts of those first in their queues, in seat-seconds. Long and wide: some queue is behind.",
            Query(
                f'max by (priority_level) (apf_next_s_bounds{{{LEVEL}, bound="max"}} '
                f'- ignoring (bound) apf_next_s_bounds{{{LEVEL}, bound="min"}})',
                BY_LEVEL,
            ),
        ),
        timeseries(
            "Wait, 99 %, by schema",
            "A schema that waits longer than its neighbors asks for more than its share.",
            Query(quantile(0.99, WAITS, "flow_schema", SERVED), "{{flow_schema}}"),
            unit="s",
        ),
        timeseries(
            "Length of the queue joined",
            "On average; near 1 nobody waits. Elephants join long queues, mice short ones.",
            Query(average("request_queue_length_after_enqueue"), BY_LEVEL),
        ),
    ]


def _widths() -> list[Json]:
    return [
        timeseries(
            "Its turn, but too wide",
            "How often the request whose turn it was didn't fit into the free seats.",
            Query(rate("request_dispatch_no_accommodation_total", "flow_schema"), "{{flow_schema}}"),
            unit="ops",
        ),
        timeseries(
            "Seats of a request",
            "Estimated, on average.",
            Query(average("work_estimated_seats", "flow_schema"), "{{flow_schema}}"),
        ),
        timeseries(
            "Estimates that were cut",
            "Requests that were estimated to take more seats than their level lets one have.",
            Query(rate("cut_requests_total", "flow_schema"), "{{flow_schema}}"),
            unit="reqps",
            width=24,
        ),
    ]


def rejections() -> Row:
    reasons = rate("rejected_requests_total", "reason")
    by_schema = rate("rejected_requests_total", "priority_level, flow_schema, reason")
    return Row(
        "Rejections",
        [
            timeseries(
                "Rejected, by reason",
                "queue-full and concurrency-limit at once, time-out after the wait limit; cancelled: the client left; "
                "too late: the deadline had passed when the request got its seats.",
                Query(reasons, "{{reason}}"),
                Query(rate("late_seats_total", ""), "too late"),
                unit="reqps",
                stack=True,
            ),
            timeseries(
                "Rejected part, by level",
                "Of all requests that came, but for clients that left.",
                Query(rejected_part(), BY_LEVEL),
                unit="percentunit",
            ),
            bars(
                "Rejected most",
                "Which schemas, and why.",
                Query(f"sort_desc(topk(10, {by_schema}))", "{{priority_level}} / {{flow_schema}}: {{reason}}"),
                unit="reqps",
            ),
            *_predictions(),
        ],
    )


def _predictions() -> list[Json]:
    return [
        timeseries(
            "Too late on arrival",
            "late: expected to miss their deadlines, rejected at once if so configured; missed: deadlines passed.",
            Query(rate("late_arrivals_total", "outcome"), "{{outcome}}"),
            unit="reqps",
        ),
        timeseries(
            "Predicted by real wait",
            "Sums of the waits that were predicted on arrival, by those of the same requests; 1 is right.",
            Query(
                f"{rate('predicted_wait_seconds_total', 'priority_level', PREDICTED)} "
                f"/ {rate('predicted_wait_seconds_total', 'priority_level', REAL)}",
                BY_LEVEL,
            ),
        ),
    ]


def borrowing() -> Row:
    return Row("Borrowing", [*_lending(), *_adjusting()])


def _lending() -> list[Json]:
    in_use, nominal = gauge("current_executing_seats"), limit("nominal_limit_seats")
    return [
        timeseries(
            "Borrowed",
            "Seats in use beyond nominal. At exempt levels, which nothing limits, all beyond nominal.",
            Query(f"clamp_min({in_use} - {nominal}, 0)", BY_LEVEL),
            stack=True,
        ),
        timeseries(
            "Lent",
            "Nominal seats that aren't the level's now.",
            Query(f"clamp_min({nominal} - {gauge('current_limit_seats')}, 0)", BY_LEVEL),
            stack=True,
        ),
        timeseries(
            "Room up to max",
            "Seats that the level could still borrow if others were idle. At 0 only more shares or seats help.",
            Query(f"clamp_min({limit('upper_limit_seats')} - {in_use}, 0)", BY_LEVEL),
        ),
    ]


def _adjusting() -> list[Json]:
    periodic = "Only with borrowing: periodic. "
    return [
        timeseries(
            "Demand",
            "Seats in use and asked for, divided by the nominal limit, or by the current one with borrowing: periodic.",
            Query(average("demand_seats"), BY_LEVEL),
            unit="percentunit",
        ),
        timeseries(
            "Demand and target",
            periodic + "What the last adjustment saw, and aimed at.",
            Query(gauge("demand_seats_high_watermark"), f"most {BY_LEVEL}"),
            Query(gauge("demand_seats_average"), f"average {BY_LEVEL}"),
            Query(gauge("demand_seats_stdev"), f"deviation {BY_LEVEL}"),
            Query(gauge("demand_seats_smoothed"), f"smoothed {BY_LEVEL}"),
            Query(gauge("target_seats"), f"target {BY_LEVEL}"),
        ),
        timeseries(
            "Part of targets that was had",
            periodic
            + "The least of the chosen servers. Below 1 levels got less than they aimed at, above 1 more was left.",
            Query(f"min(apf_seat_fair_frac{{{SERVER}}})", "least"),
            unit="percentunit",
        ),
    ]


def clients() -> Row:
    timed_out, left = ', reason="time-out"', ', reason="cancelled"'
    return Row(
        "Clients: time-outs, hang-ups, credentials",
        [
            timeseries(
                "Waited in vain",
                "Rejected when the wait limit had passed.",
                Query(rate("rejected_requests_total", where=timed_out), BY_LEVEL),
                unit="reqps",
                width=6,
            ),
            timeseries(
                "Left while waiting, by level",
                "Their requests never ran. Many: clients are less patient than the wait limit.",
                Query(rate("rejected_requests_total", where=left), BY_LEVEL),
                unit="reqps",
                width=6,
            ),
            timeseries(
                "Hang-ups",
                "Clients that left while their requests waited for their bodies, gates or seats.",
                Query(server_rate("hang_ups_total", "phase"), "{{phase}}"),
                unit="reqps",
                width=6,
            ),
            timeseries(
                "Refused for credentials",
                "By reason.",
                Query(server_rate("authentication_failures_total", "reason"), "{{reason}}"),
                unit="reqps",
                width=6,
            ),
        ],
    )


def servers() -> Row:
    return Row("Servers and configuration", [*_instances(), *_versions()])


def _instances() -> list[Json]:
    by = "instance"
    return [
        timeseries(
            "Dispatched, by instance",
            "Uneven: look at the load balancer.",
            Query(rate("dispatched_requests_total", by), "{{instance}}"),
            unit="reqps",
            width=6,
        ),
        timeseries(
            "Rejected, by instance",
            "One alone: it is slower than the others, or gets more.",
            Query(rate("rejected_requests_total", by, NOT_LEFT), "{{instance}}"),
            unit="reqps",
            width=6,
        ),
        timeseries(
            "Seats in use, by instance",
            "Of each server's seats; above 1 is exempt load.",
            Query(
                f"sum by (instance) (apf_current_executing_seats{{{SERVER}}}) "
                f"/ sum by (instance) (apf_server_seats{{{SERVER}}})",
                "{{instance}}",
            ),
            unit="percentunit",
            width=6,
        ),
        timeseries(
            "Waiting, by instance",
            "Requests in queues.",
            Query(gauge("current_inqueue_requests", by), "{{instance}}"),
            width=6,
        ),
    ]


def _versions() -> list[Json]:
    return [
        timeseries(
            "Not limited",
            "Requests that ran at once because a server only observes, or is off.",
            Query(server_rate("passed_requests_total", "instance, mode"), "{{instance}}: {{mode}}"),
            unit="reqps",
            width=6,
        ),
        timeseries(
            "Configurations read",
            "By outcome, and servers whose last one was a failure: there the one before stays in force, and the log "
            "says what is wrong.",
            Query(f"sum by (outcome) (increase(apf_configuration_loads_total{{{SERVER}}}[{SPAN}]))", "{{outcome}}"),
            Query(f"sum(1 - apf_configuration_last_load_successful{{{SERVER}}})", "servers with a broken one"),
            width=6,
        ),
        timeseries(
            "Sources of credentials that fail",
            "Files and URLs of tokens or keys that can't be read; what was read before stays in force.",
            Query(
                f"max by (instance, source) (apf_authentication_failing_sources{{{SERVER}}})",
                "{{instance}}: {{source}}",
            ),
            width=6,
        ),
        table(
            "Versions",
            "What runs where.",
            [("servers", Query(f"sum by (instance, version) (apf_info{{{SERVER}}})"))],
            width=6,
        ),
    ]
