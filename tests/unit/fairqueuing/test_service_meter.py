"""What `Guarantee` knows of one queue."""

from apf_middleware.fairqueuing.service_meter import ServiceMeter


def test_a_queue_begins_without_service_and_is_listed_nowhere() -> None:
    meter = ServiceMeter(3)

    assert (meter.index, meter.service, meter.least, meter.debt) == (3, 0, 0, 0)
    assert (meter.heap, meter.listed) == (None, 0)


def test_the_representation_says_how_much_is_demanded() -> None:
    assert repr(ServiceMeter(4)) == "<ServiceMeter 4: 0 seats demanded>"
