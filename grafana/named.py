"""The row about named queues: whether each has what it deserves, and what an operator has done.

Parents aren't levels that can be chosen at the top. Panels that show queues one by one have all of them; sums are of
the chosen levels, because the numbers of a parent are those of its children.
"""

from grafana.panels import Query, Row, table, timeseries
from grafana.queries import SERVER, SPAN, limit

__all__ = ["queues"]

_QUEUE = f'{SERVER}, queue=~"$level"'
_BY_QUEUE = "{{queue}}"


def _sum(name: str, by: str) -> str:
    return f"sum by ({by}) (apf_{name}{{{_QUEUE}}})"


def _used() -> str:
    return f"sum by (queue) (apf_queue_used_seats{{{SERVER}}})"


def _limit(name: str) -> str:
    return limit(name, "queue", SERVER)


def _rate(name: str, by: str) -> str:
    return f"sum by ({by}) (rate(apf_{name}{{{_QUEUE}}}[{SPAN}]))"


def queues() -> Row:
    return Row(
        "Named queues",
        [
            timeseries(
                "Share",
                "Seats in use as part of what is deserved, also of parents: beyond 1 they are borrowed.",
                Query(f"{_used()} / ({_limit('queue_deserved_seats')} > 0)", _BY_QUEUE),
                unit="percentunit",
                width=8,
            ),
            timeseries(
                "Requests of queues",
                "Waiting for seats, parked by a gate, running.",
                Query(_sum("queue_requests", "state"), "{{state}}"),
                width=8,
            ),
            timeseries(
                "Ended",
                "By how they ended; failed are those that raised or answered with a status of 500 or more.",
                Query(_rate("queue_finished_requests_total", "outcome"), "{{outcome}}"),
                unit="reqps",
                width=8,
            ),
            timeseries(
                "Operated",
                "Queues that aren't open, queues that differ from their files, requests that were asked to give way or "
                "named a queue that isn't there.",
                Query(f'sum by (state) (apf_queue_state{{{_QUEUE}, state!="Open"}})', "{{state}}"),
                Query(f"max(apf_queue_live_changes{{{SERVER}}})", "differ from files"),
                Query(f"sum(increase(apf_queue_revocations_total{{{_QUEUE}}}[{SPAN}]))", "asked to give way"),
                Query(f"sum(increase(apf_unknown_queue_requests_total{{{SERVER}}}[{SPAN}]))", "unknown names"),
                width=8,
            ),
            table(
                "Queues",
                "All queues, also parents. Seats over all instances; those of a fleet count once.",
                [
                    ("weight", Query(f"max by (queue) (apf_queue_weight{{{SERVER}}})")),
                    ("min", Query(_limit("queue_min_seats"))),
                    ("deserved", Query(_limit("queue_deserved_seats"))),
                    ("used", Query(_used())),
                    ("max", Query(_limit("queue_max_seats"))),
                ],
                width=16,
            ),
        ],
    )
