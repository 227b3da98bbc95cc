"""A world with one asynchronous gate, whose questions a test answers."""

from typing import Any

from apf_middleware.gates import Check, Gate, GateRequest, Terms
from tests.unit.gates.gateworld import SECOND, GateWorld

BYPASSES = 3


class Remote(Gate):
    """An asynchronous gate whose answers a test gives."""

    is_async = True

    def __init__(self, **terms: Any) -> None:  # noqa: ANN401
        super().__init__("remote", Terms(max_parked=1000, most_bypasses=BYPASSES, **terms))

    def key(self, request: GateRequest) -> str:  # noqa: ARG002
        return ""

    def cost(self, request: GateRequest) -> int:  # noqa: ARG002
        return 1

    def acquire(self, *_: object) -> object:
        raise AssertionError("a test answers in its place")


class RemoteWorld(GateWorld):
    """A world with one asynchronous gate; ``checks`` are its open questions by the request's name."""

    def __init__(self, *gates: Gate, seats: int = 100, **terms: Any) -> None:  # noqa: ANN401
        super().__init__(Remote(**terms), *gates, seats=seats)
        self.checks: dict[str, Check] = {}
        self.ask = self._ask_remote

    def _ask_remote(self, _now: int, check: Check) -> None:
        self.checks[check.acquisition.request.state["me"]] = check

    def come(self, name: str, *gates: str) -> None:
        self.arrive(name, *(gates or ("remote",)), me=name)

    def answer(self, name: str, given: object) -> list[str]:
        return self.note(self.sharing.conclude(self.now, self.checks.pop(name), given))

    def serve_all(self) -> None:
        """Answer every question with a lease, and end each request that is served, until nothing is left to happen."""
        for _ in range(2000):
            running = [name for name, ticket in self.tickets.items() if ticket.is_seated]
            if self.checks:
                self.answer(next(iter(self.checks)), "lease")
            elif running:
                self.finish(running[0])
            elif self.sharing.next_event_at() is not None:
                self.wait(SECOND)
            else:
                return
        raise AssertionError(f"{self.scheduler!r} doesn't come to rest")
