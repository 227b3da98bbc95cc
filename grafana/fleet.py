"""The row about fleets: the seats of each member, who divides them, and how old the last answer is."""

from grafana.panels import Query, Row, timeseries
from grafana.queries import SERVER, SPAN, server_rate

__all__ = ["fleet"]

_INSTANCE = "{{instance}}"


def _gauge(name: str) -> str:
    return f"sum by (instance) (apf_fleet_{name}{{{SERVER}}})"


def _of_fleets(name: str) -> str:
    """Of what all members of a fleet say alike; servers of another job are another fleet."""
    return f"sum(max by (job) (apf_fleet_{name}{{{SERVER}}}))"


def fleet() -> Row:
    waited = server_rate("fleet_exchange_duration_seconds_bucket", "instance, le")
    return Row(
        "Fleet",
        [
            timeseries(
                "Seats of the fleet",
                "Granted to all members together, and used by them. Prometheus reads one after the other, so a seat "
                "that moves meanwhile may count twice; real excess is under Seats beyond the budget.",
                Query(_of_fleets("seats"), "budget"),
                Query(f"sum(apf_fleet_granted_seats{{{SERVER}}})", "granted"),
                Query(f"sum(apf_fleet_used_seats{{{SERVER}}})", "used"),
                width=6,
            ),
            timeseries(
                "Granted, by member",
                "Seats move to where requests wait.",
                Query(_gauge("granted_seats"), _INSTANCE),
                width=6,
            ),
            timeseries(
                "Members and allocators",
                "There is one allocator for each fleet. Changes mean that it has ended, or didn't answer.",
                Query(_of_fleets("members"), "members"),
                Query(f"sum(apf_fleet_is_allocator{{{SERVER}}})", "allocators"),
                Query(f"sum(increase(apf_fleet_epochs_total{{{SERVER}}}[{SPAN}]))", "changes"),
                Query(f"sum(apf_fleet_configuration_differs{{{SERVER}}})", "with an older configuration"),
                width=6,
            ),
            timeseries(
                "Time to the allocator's answer, 99 %",
                "For a member without a free seat this is a part of the wait of its requests.",
                Query(f"histogram_quantile(0.99, {waited})", _INSTANCE),
                unit="s",
                width=6,
            ),
            timeseries(
                "Age of the last answer",
                "When a lease ends, the member has only its fallback seats.",
                Query(f"max by (instance) (apf_fleet_exchange_age_seconds{{{SERVER}}})", _INSTANCE),
                unit="s",
                width=8,
            ),
            timeseries(
                "Members without a lease",
                "How many processes had only their fallback seats, on average.",
                Query(server_rate("fleet_fallback_seconds_total", "instance"), _INSTANCE),
                width=8,
            ),
            timeseries(
                "Seats beyond the budget",
                "On average; requests of members that were stopped for longer than their leases.",
                Query(server_rate("fleet_overshoot_seat_seconds_total", "job"), "{{job}}"),
                width=8,
            ),
        ],
    )
