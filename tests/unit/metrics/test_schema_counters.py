"""Counters of the requests of a schema."""

from apf_middleware.metrics import SchemaCounters


def test_the_sum_of_counters_has_every_number_of_both() -> None:
    one, other = SchemaCounters("a", "b"), SchemaCounters("a", "b")
    for counters, number in ((one, 1), (other, 10)):
        for name in ("at_once", "after_wait", "waiting", "suspended", "cut", "extra_seats", "extra_seats_waiting"):
            setattr(counters, name, number)
        counters.no_accommodation = number
        for histogram in (
            counters.waits,
            counters.unserved_waits,
            counters.executions,
            counters.streams,
            counters.lengths,
        ):
            histogram.observe(number)
        counters.watches.observe(number)
        counters.rejected = dict.fromkeys(counters.rejected, number)
    total = one.plus(other)

    left_out = {"level", "schema", "widths", "failed", "aborted", "rejected"}
    numbers = {name: getattr(total, name) for name in SchemaCounters.__slots__ if name not in left_out}
    assert {name: getattr(value, "total", value) for name, value in numbers.items()} == dict.fromkeys(numbers, 11)
    assert set(total.rejected.values()) == {11}
