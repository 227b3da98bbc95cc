"""The network between the members of a simulated fleet and its allocator."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from apf_middleware.config.scenario import ScenarioMembers
from apf_middleware.runtime.event_queue import EventQueue

__all__ = ["MessageNetwork"]

T = TypeVar("T")


class MessageNetwork:
    """Delivers messages after random delays, and loses some, as ``settings`` say.

    Each message is from a member or to one, and those of members that are ``cut_off`` are lost. ``sent`` and ``lost``
    count messages.
    """

    def __init__(self, events: EventQueue, settings: ScenarioMembers, dice: Random) -> None:
        self.cut_off: set[int] = set()
        self.sent: int = 0
        self.lost: int = 0
        self._events = events
        self._settings = settings
        self._dice = dice

    def send(self, member: int, deliver: Callable[[T], object], message: T) -> None:
        """Call ``deliver`` with a ``message`` from or to the member of this number, unless it is lost."""
        self.sent += 1
        delay = self._settings.delay.draw(self._dice)
        if member in self.cut_off or self._dice.random() < self._settings.loss:
            self.lost += 1
        else:
            self._events.at(self._events.now + delay, deliver, message)

    def __repr__(self) -> str:
        return f"<MessageNetwork: {self.sent} messages, {self.lost} lost>"
