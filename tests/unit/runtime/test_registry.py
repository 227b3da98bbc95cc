"""The levels of a configuration, and their generations."""

from apf_middleware.classification import Classification
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Admission
from tests.support.named_queues import NamedQueueServer, level, server

WEB = level("web", "minSeats: 0, maxSeats: 4")
ONE = server(10) + level("web", "minSeats: 0, maxSeats: 1")


def test_a_name_that_is_made_again_is_another_queue() -> None:
    house = NamedQueueServer(ONE)
    first = house.queues.status("web").generation
    [running] = house.arrive("web")
    house.queues.delete("web", cascade=True)
    made = house.queues.create("web", max=1)

    assert (made.state, made.running, made.arrived) == ("Open", 0, 0)
    assert made.generation > first
    [young] = house.arrive("web")
    house.end(running)
    assert house.queues.status("web").running == 1
    assert house.queues.status("web").completed == 0
    house.end(young)
    assert house.queues.status("web").completed == 1


def test_counters_go_on_from_the_queue_that_there_is_and_not_from_one_of_its_name_that_was_deleted() -> None:
    house = NamedQueueServer(server(10) + WEB)
    house.arrive("web")
    house.queues.delete("web", cascade=True)  # and its request runs on
    house.reload(server(10) + level("web", "minSeats: 0, maxSeats: 5"))
    [served] = house.arrive("web")
    house.end(served)
    house.reload(server(10) + level("web", "type: Exempt"))

    assert house.queues.status("web").completed == 1


def test_a_level_that_is_revived_counts_on_from_the_one_that_took_its_place() -> None:
    house = NamedQueueServer(server(10) + WEB)
    house.arrive("web")  # so that the level drains while an exempt one has its name
    gone = Admission(house.controller.destination(Classification("gone", "web", "flow", 1), Work(1)))
    house.controller.arrive(house.now, gone)
    house.controller.release(gone)
    before = house.queues.status("web").generation
    house.reload(server(10) + level("web", "type: Exempt"))
    house.controller.look(house.now)  # now the counters of the schema that has gone are forgotten

    house.reload(server(10) + WEB)

    assert house.queues.status("web").generation == before
    assert house.queues.status("web").completed == 1
