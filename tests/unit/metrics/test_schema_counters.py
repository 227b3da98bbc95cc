"""Counters of the requests of a schema."""

from apf_middleware.metrics import SchemaCounters

LEFT_OUT = {"level", "schema", "widths", "failed", "aborted", "rejected"}


def numbers(counters: SchemaCounters) -> dict[str, int]:
    """Return all numbers of ``counters``, and the totals of histograms, by name."""
    values = {name: getattr(counters, name) for name in dir(counters) if name[0] != "_" and name not in LEFT_OUT}
    return {name: getattr(value, "total", value) for name, value in values.items() if not callable(value)}


def test_the_sum_of_counters_has_every_number_of_both() -> None:
    one, other = SchemaCounters("a", "b"), SchemaCounters("a", "b")
    for counters, number in ((one, 1), (other, 10)):
        for name in ("at_once", "after_wait", "waiting", "suspended", "cut", "extra_seats", "extra_seats_waiting"):
            setattr(counters, name, number)
        counters.no_accommodation = counters.expired = counters.late = counters.passed = number
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

    sums = numbers(total)
    assert sums == {name: number + numbers(other)[name] for name, number in numbers(one).items()}
    assert min(sums.values()) > 0, "the test sets each of them"
    assert set(total.rejected.values()) == {11}
