"""The network of a simulated fleet."""

from random import Random

from apf_middleware.config.scenario import ConstantDuration, ScenarioMembers
from apf_middleware.runtime.event_queue import EventQueue
from apf_middleware.simulation.fleet.network import MessageNetwork


def test_messages_are_delayed_and_lost() -> None:
    events, arrived = EventQueue(), list[tuple[int, int]]()
    network = MessageNetwork(events, ScenarioMembers(2, delay=ConstantDuration(500), loss=0.25), Random(1))
    for number in range(1000):
        network.send(0, lambda message: arrived.append((events.now, message)), number)
    events.run()

    assert {at for at, _ in arrived} == {500}
    assert network.sent == 1000
    assert network.lost == 1000 - len(arrived)
    assert 200 < network.lost < 300


def test_messages_of_members_that_are_cut_off_are_lost() -> None:
    events, arrived = EventQueue(), list[str]()
    network = MessageNetwork(events, ScenarioMembers(2), Random(1))
    network.cut_off.add(1)
    network.send(0, arrived.append, "first")
    network.send(1, arrived.append, "second")
    events.run()
    network.cut_off.clear()
    network.send(1, arrived.append, "third")
    events.run()

    assert arrived == ["first", "third"]
    assert network.lost == 1
