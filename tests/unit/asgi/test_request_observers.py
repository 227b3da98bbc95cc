"""Observers see each request before it asks for seats, and are told what becomes of it."""

from typing import TYPE_CHECKING

import anyio
import pytest

from tests.support.protected_app import ALL_HEADERS, ProtectedApp, configuration, settle

if TYPE_CHECKING:
    from starlette.types import Scope

    from apf_middleware.asgi.resolver import ResolvedRequest
    from apf_middleware.runtime import Admission

pytestmark = pytest.mark.anyio


class Observation:
    def __init__(self, events: list[str], path: str) -> None:
        self.events, self.path = events, path

    def note_seated(self, _admission: "Admission") -> None:
        self.events.append(f"{self.path} seated")

    def note_released(self, _admission: "Admission") -> None:
        self.events.append(f"{self.path} released")

    def note_rejected(self, admission: "Admission") -> None:
        self.events.append(f"{self.path} {admission.reason}")

    def note_passed(self, _admission: "Admission") -> None:
        self.events.append(f"{self.path} passed")


class Observer:
    """Observes all requests but those to /skipped."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def begin(self, scope: "Scope", resolved: "ResolvedRequest") -> Observation | None:
        path = scope["path"]
        if path == "/skipped":
            return None
        self.events.append(f"{path} {resolved.classification.level}")
        return Observation(self.events, path)


async def test_each_request_is_observed_from_its_arrival_to_its_end() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks, configuration(length=1, queues=1))
        before, observers, observer = await app.holder(), app.middleware.service.observers, Observer()
        observers.add(observer)
        waiting = app.request("/waiting")
        await settle()
        rejected = await app.request("/rejected").end()
        await app.request("/skipped").end()

        assert observer.events == ["/waiting crowd", "/rejected crowd", "/rejected queue-full"]
        assert rejected.status == 429

        app.finish()
        await before.end()
        await waiting.end()
        assert observer.events[3:] == ["/waiting seated", "/waiting released"]

        observers.remove(observer)
        observers.remove(observer)
        await app.request("/last").end()
        assert len(observer.events) == 5
        assert repr(observers) == "<RequestObservers: 0>"


async def test_a_client_that_hangs_up_while_it_waits_is_a_rejection() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        observer = Observer()
        app.middleware.service.observers.add(observer)
        await app.holder()
        waiting = app.request("/waiting")
        await settle()
        waiting.disconnect()
        await waiting.end()
        app.finish()

    assert observer.events == ["/hold crowd", "/hold seated", "/waiting crowd", "/waiting cancelled", "/hold released"]


async def test_requests_that_wait_when_the_server_is_switched_off_pass() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        observer = Observer()
        app.middleware.service.observers.add(observer)
        await app.holder()
        waiting = app.request("/waiting")
        await settle()
        app.middleware.service.switch("off")
        await waiting.end()
        await app.request("/later").end()
        app.finish()

    waited = ["/waiting crowd", "/waiting passed"]
    later = ["/later crowd", "/later seated", "/later released"]
    assert observer.events == ["/hold crowd", "/hold seated", *waited, *later, "/hold released"]


@pytest.mark.parametrize("mode", ["on", "observe"])
async def test_requests_that_are_admitted_at_once_are_observed(mode: str) -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks, configuration(server=f"{ALL_HEADERS}, mode: '{mode}'"))
        observer = Observer()
        await app.request("/known").end()
        app.middleware.service.observers.add(observer)
        await app.request("/known").end()

    assert observer.events == ["/known crowd", "/known seated", "/known released"]


class Listener(Observation):
    """An observation that is interested in the response."""

    def note_response(self, status: int) -> None:
        self.events.append(f"{self.path} {status}")


@pytest.mark.parametrize("mode", ["on", "observe", "off"])
async def test_observations_may_listen_to_the_response(mode: str) -> None:
    events: list[str] = []

    class ListeningObserver:
        def begin(self, scope: "Scope", _resolved: "ResolvedRequest") -> Listener:
            return Listener(events, scope["path"])

    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks, configuration(server=f"{ALL_HEADERS}, mode: '{mode}'", length=1, queues=1))
        observer = ListeningObserver()
        app.middleware.service.observers.add(observer)
        assert list(app.middleware.service.observers) == [observer]
        await app.request("/answered").end()

    assert events == ["/answered seated", "/answered 200", "/answered released"]
