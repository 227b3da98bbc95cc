"""How many seats a request takes, as the configuration says: by route, header, function, or as it was learned."""

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi import APFMiddleware
from apf_middleware.classification import RequestDigest
from apf_middleware.config import load_text
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime.running_requests import RunningRequests
from tests.support.asgi_exchange import http_scope

pytestmark = pytest.mark.anyio

CONFIG = """
apiVersion: apf/v1
kind: Server
metadata: {name: server}
spec:
  seats: 100
  defaults: none
  estimation: {cap: false}
  routes:
  - {path: "/reports/{name}", resource: reports, estimate: {seats: 5}}
  - {path: /called, resource: called, estimate: {source: callable, callable: "tests.integration.test_cost:by_path"}}
  - {path: /awaited, resource: awaited, estimate: {source: callable, callable: "tests.integration.test_cost:slowly"}}
  - {path: /charged, resource: charged, estimate: {source: learned}}
  - {path: /learned, resource: learned, estimate: {source: learned, durationPerSeat: 10ms}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 1000}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: completions}
spec:
  level: crowd
  estimate: {source: header, name: x-max-tokens, perSeat: 1000, mostSeats: 20, networks: [127.0.0.0/8]}
  rules:
  - httpRules: [{}]
"""


def by_path(digest: RequestDigest, _classification: object) -> Work:
    return Work(int(digest.query.get("n", "1")))


async def slowly(digest: RequestDigest, classification: object) -> Work:
    await anyio.sleep(0.001)
    return by_path(digest, classification)


class EstimatingApp:
    """Weighs requests: how many seats they have while they run, for a time that only its clock knows."""

    def __init__(self) -> None:
        self.middleware = APFMiddleware(self._app, load_text(CONFIG))
        service = self.middleware.service
        self._now = service.now()
        service.now = service.controller.now = lambda: self._now
        self.seats = 0
        self.lasts = 0.0
        self.charge: float | None = None
        self.late = True

    async def _app(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        self.seats = scope["apf"].seats
        if self.charge is not None:
            assert scope["apf"].charge(self.charge)
        await anyio.lowlevel.checkpoint()
        self._now += round(self.lasts * 10**9)
        if self.charge is not None and scope["path"] == "/late":
            scope["apf"].release()
            self.late = scope["apf"].charge(99)

    async def seats_of(self, path: str, **headers: str) -> int:
        async def receive() -> Message:
            raise AssertionError

        async def send(_message: Message) -> None: ...

        given = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.middleware(http_scope(path, headers=given), receive, send)
        return self.seats


async def test_a_route_gives_the_number_of_seats() -> None:
    estimating = EstimatingApp()

    assert [await estimating.seats_of("/reports/7") for _ in range(2)] == [5, 5]
    assert await estimating.seats_of("/else") == 1


async def test_a_header_of_a_trusted_caller_gives_the_number_of_seats() -> None:
    estimating = EstimatingApp()

    for _ in range(2):
        assert await estimating.seats_of("/v1", x_max_tokens="3000") == 3
        assert await estimating.seats_of("/v1", x_max_tokens="9999999") == 20
        assert await estimating.seats_of("/v1", x_max_tokens="-5") == 1
        assert await estimating.seats_of("/v1") == 1


@pytest.mark.parametrize("path", ["/called", "/awaited"])
async def test_an_estimating_function_is_called_for_each_request(path: str) -> None:
    estimating = EstimatingApp()

    assert [await estimating.seats_of(f"{path}?n={number}") for number in (2, 4, 2)] == [2, 4, 2]


async def test_seats_are_learned_from_durations() -> None:
    estimating = EstimatingApp()
    assert await estimating.seats_of("/learned") == 1
    estimating.lasts = 0.035
    for _ in range(30):
        await estimating.seats_of("/learned")

    assert await estimating.seats_of("/learned") == 4
    counters = estimating.middleware.service.controller.levels["crowd"].schema_counters["completions"]
    assert (counters.seats_executing, counters.executing) == (0, 0)


async def test_seats_are_learned_from_charges() -> None:
    estimating = EstimatingApp()
    estimating.lasts, estimating.charge = 0.002, 4
    running = RunningRequests(0)
    controller = estimating.middleware.service.controller
    controller.record(running)
    for _ in range(4):
        await estimating.seats_of("/charged")

    assert await estimating.seats_of("/charged") == 4
    [heavy] = running.work.top(1)
    assert heavy.total >= 5 * 4 * 2_000_000
    counters = controller.levels["crowd"].schema_counters["completions"]
    assert (counters.seats_executing, counters.executing) == (0, 0)
    controller.sharing.check()
    controller.levels["crowd"].look(controller.now())
    assert controller.levels["crowd"].occupancy.values[0] == 0


async def test_a_charge_after_the_seats_are_released_has_no_effect() -> None:
    estimating = EstimatingApp()
    estimating.charge = 2
    await estimating.seats_of("/late")

    assert estimating.late is False
