"""The part of a queue that the fluid model reads and moves."""

from heapq import heappop

import pytest

from apf_middleware.fairqueuing.disciplines.max_min_concurrent import ConcurrentMeter
from apf_middleware.fairqueuing.disciplines.max_min_serial import SerialMeter
from apf_middleware.fairqueuing.disciplines.work_meter import IS_WIDE, MaxMinQueue, WorkMeter


def meters() -> list[WorkMeter]:
    return [SerialMeter(7, 1000), ConcurrentMeter(7, 1000, 1000)]


@pytest.mark.parametrize("meter", meters(), ids=repr)
def test_a_queue_has_the_index_and_the_figures_of_its_meter(meter: WorkMeter) -> None:
    meter.share.rho = 3

    queue = MaxMinQueue(meter)

    assert queue.index == 7
    assert queue.meters() == meter.figures()
    assert queue.meters()["rho"] == 3


@pytest.mark.parametrize("meter", meters(), ids=repr)
def test_virtual_ends_come_in_their_order_with_their_widths(meter: WorkMeter) -> None:
    for end, width in ((30, 1), (10, 2), (20, 1 << 33), (20, 1), (20, 5)):
        meter.end_virtually(end, width)
    assert meter.virtual_ends[0] >> 1 == 10
    assert meter.seats_of_virtual_ends() == (1 << 33) + 9

    entries = [heappop(meter.virtual_ends) for _ in range(5)]
    ends = [(entry >> 1, meter.take_width(entry) if entry & IS_WIDE else 1) for entry in entries]

    assert ends == [(10, 2), (20, 1), (20, 5), (20, 1 << 33), (30, 1)]
    assert meter.seats_of_virtual_ends() == 0


@pytest.mark.parametrize("meter", meters(), ids=repr)
def test_a_queue_without_requests_has_no_next_event(meter: WorkMeter) -> None:
    assert meter.next_end() is None


def test_positions_move_by_the_way_between_two_meters() -> None:
    """Those of `SerialMeter` stay on the queue's own meter, and are converted when they are read."""
    serial, concurrent = SerialMeter(0, 1000), ConcurrentMeter(0, 1000, 1000)
    serial.end_virtually(500, 1)
    concurrent.occupied = 1
    concurrent.end_virtually(500, 1)
    assert (serial.next_end(), concurrent.next_end()) == (500, 500)

    for meter in (serial, concurrent):
        meter.on_r, meter.base = True, 200
        meter.shift_positions(-200)

    assert (serial.next_end(), concurrent.next_end()) == (300, 300)


def test_the_representation_says_how_much_is_demanded() -> None:
    meter = SerialMeter(2, 1000)
    meter.share.rho = 4

    assert repr(meter) == "<SerialMeter 2: 4 seats demanded>"
