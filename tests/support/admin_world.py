"""A controller with an admin under a clock of its own, and checks of answers against the OpenAPI description."""

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio
from starlette.types import Message

from apf_middleware.asgi.admin import Admin
from apf_middleware.asgi.admin.openapi import describe
from apf_middleware.asgi.fleet_notices import FleetNotices
from apf_middleware.asgi.identity import build_chain
from apf_middleware.asgi.request_observers import RequestObservers
from apf_middleware.asgi.resolver import RequestDetails, RequestResolver
from apf_middleware.asgi.shadow_control import ShadowControl
from apf_middleware.classification import Classification, Identity, Resource
from apf_middleware.config import load_text
from apf_middleware.config.admin import AdminSettings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Work
from apf_middleware.mode import Mode
from apf_middleware.runtime import Admission, Controller, Destination
from apf_middleware.runtime.named_queues import NamedQueues
from apf_middleware.runtime.running_requests import RunningRequests
from tests.support.asgi_exchange import http_scope
from tests.support.json_schema import wrong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apf_middleware.asgi.shadow import ShadowTrial
    from apf_middleware.config import Configuration, Problem

SECOND = 10**9
WALL = 1_700_000_000 * SECOND  # 2023-11-14T22:13:20Z
PATH = "/debug/api_priority_and_fairness"
OLGA = Identity("olga", ("operators", "system:authenticated"))
CONFIG = """
apiVersion: apf/v1
kind: Server
metadata: {name: server}
spec: {seats: 2, defaults: none, discipline: DISCIPLINE}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec:
  shares: 1000
  queuing: {queues: 2, handSize: 2, queueLengthLimit: 3}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: everybody}
spec: {level: crowd, rules: [{httpRules: [{}]}]}
"""

LOUIS = Identity("louis", ("lookers", "system:authenticated"))
JSON = {"Content-Type": "application/json"}


class DetailedDestination(Destination):
    """A destination with the details of its requests."""

    __slots__ = ("details",)

    def __init__(self, controller: Controller, place: Classification, work: Work, identity: Identity) -> None:
        super().__init__(controller, place, work, identity)
        self.details = RequestDetails(
            "list", "/tenants/acme/orders\n", Resource("orders", "shop", "v1", "status", "acme", "number-7")
        )


class AdminWorld:
    """A controller with a clock that tests set and a record of running requests as in a server; it is a `View`, too."""

    def __init__(self, discipline: str = "equal-serial") -> None:
        self.time = 100 * SECOND
        self.configuration: Configuration = load_text(CONFIG.replace("DISCIPLINE", discipline))
        self.controller = Controller(self.configuration, now=lambda: self.time)
        self.queues = NamedQueues(self.controller)
        self.running = RunningRequests(self.time)
        self.problems: Sequence[Problem] = ()
        self.fleet: Any = None
        self.notices = FleetNotices(self.controller)
        self.observers = RequestObservers(lambda: None)
        self.chain = build_chain(self.configuration.server)
        self.resolver = RequestResolver(self.configuration, self.controller, self.chain)
        self.shadow = ShadowControl(self.controller, self.resolver, self.observers, lambda _: None, force=self.force)
        self.promotion: tuple[Problem, ...] = ()
        self.mode: Mode = "on"
        self.passed: Counter[str] = Counter(observe=0, off=0)
        self.reloads = 0
        self.outcome: bool | None = True
        self.admin = Admin(self, AdminSettings(groups=("auditors",), operators=("operators",)), lambda: WALL)

    def switch(self, mode: Mode) -> None:
        self.mode = mode

    async def force(self, _trial: "ShadowTrial") -> "tuple[Problem, ...]":
        return self.promotion

    async def reload(self) -> bool:
        self.reloads += 1
        if self.outcome is None:
            raise InvalidValueError("config", self.configuration, "only a configuration that came from files can be")
        return self.outcome

    def request(
        self,
        flow: str,
        *,
        seats: int = 1,
        level: str = "crowd",
        work: Work | None = None,
        entropy: int = 0,
        weight: float = 1,
    ) -> Admission:
        place = Classification("everybody" if level == "crowd" else level, level, flow, entropy, weight)
        admission = Admission(
            DetailedDestination(self.controller, place, work or Work(seats), Identity(f"user-{flow}"))
        )
        self.controller.arrive(self.time, admission)
        if admission.is_seated:
            self.running.note_seated(admission)
        elif admission.is_rejected:
            self.running.note_rejected(admission)
        return admission

    def release(self, admission: Admission) -> None:
        levels = self.controller.sharing.levels.values()
        waiting = [one for level in levels for queue in level.queueset.deck for one in queue]
        self.running.note_released(admission, self.time - admission.seated_at)
        self.controller.release(admission)
        for one in waiting:
            if one.is_seated and isinstance(one, Admission):
                self.running.note_seated(one)

    async def get(
        self,
        page: str,
        identity: Identity = OLGA,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
    ) -> tuple[int, dict[str, str], str]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            raise AssertionError("the admin receives no body here")

        scope = http_scope(f"{PATH}/{page}" if page else PATH, method, headers)
        assert self.admin.is_for(scope)
        await self.admin.answer(scope, receive, send, identity)
        start, body = sent
        return start["status"], {a.decode(): b.decode() for a, b in start["headers"]}, body["body"].decode()

    async def get_text(self, page: str) -> str:
        status, headers, body = await self.get(page)
        assert status == 200
        assert int(headers["content-length"]) == len(body.encode())
        return body

    async def get_json(self, page: str) -> Any:  # noqa: ANN401
        status, headers, body = await self.get(page, headers={"Accept": "application/json"})
        assert status == 200
        assert headers["content-type"] == "application/json"
        return json.loads(body)


def busy(world: AdminWorld) -> list[Admission]:
    """Let two requests run, three wait and one be rejected; let an exempt one run, whose seats will linger."""
    admissions = [world.request("alice"), world.request("bob")]
    world.time += SECOND // 2
    admissions += [world.request("alice", seats=2), world.request("carol\n"), world.request("alice")]
    admissions.append(world.request("", level="exempt", work=Work(1, 3, 1_500_000_000)))
    return admissions


class DescribedAdmin(AdminWorld):
    """A world whose operators may change its queues, and whose readers may read them."""

    def __init__(self) -> None:
        super().__init__()
        self.admin = Admin(self, AdminSettings(groups=("lookers",), operators=("operators",), app="shop"), lambda: 0)

    async def call(
        self,
        method: str,
        page: str,
        order: object = None,
        *,
        identity: Identity | None = OLGA,
        headers: Mapping[str, str] = JSON,
        parts: list[Message] | None = None,
    ) -> tuple[int, Any]:
        """Return the answer to ``identity``, or to a client of the control socket."""
        body = b"" if order is None else order if isinstance(order, bytes) else json.dumps(order).encode()
        coming = [{"type": "http.request", "body": body, "more_body": False}] if parts is None else list(parts)
        sent: list[Message] = []

        async def receive() -> Message:
            if not coming:
                await anyio.sleep_forever()
            return coming.pop(0)

        async def send(message: Message) -> None:
            sent.append(message)

        if identity is None:
            await self.admin.answer_owner(http_scope(f"/{page}", method, headers), receive, send, "uid:1000 pid:42")
        else:
            await self.admin.answer(http_scope(f"{PATH}/{page}", method, headers), receive, send, identity)
        start, content = sent
        self.described(method, page, start["status"], json.loads(content["body"]))
        return start["status"], json.loads(content["body"])

    @staticmethod
    def described(method: str, page: str, status: int, answer: object) -> None:
        """Check that the answer matches the description of this operation."""
        description = described_api()
        first, *rest = page.partition("?")[0].split("/")
        item = description["paths"].get("/".join(("", first, "{name}", *rest[1:])) if rest else f"/{first}")
        if item is None or status == 405:
            return
        [schema] = [one["schema"] for one in item[method.lower()]["responses"][str(status)]["content"].values()]
        assert list(wrong(answer, schema, description)) == []


@cache
def described_api() -> dict[str, Any]:
    """Return the OpenAPI description as clients read it; it takes 20 ms."""
    found: dict[str, Any] = json.loads(json.dumps(describe("", "")))
    return found


class RecordedStream:
    """A recording that an operator has asked for, with the lines that have come; tests decide when its client reads."""

    def __init__(self, office: DescribedAdmin, order: Mapping[str, object]) -> None:
        self._office = office
        self._body = json.dumps(order).encode()
        self._is_asked = False
        self._gone = anyio.Event()
        self._ended = anyio.Event()
        self.content = b""
        self.may_read = anyio.Event()
        self.may_read.set()

    async def run(self, *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:  # noqa: ANN401 - of any status
        """Ask for the recording, and read it to its end; the task has started when the header has come."""

        async def receive() -> Message:
            if not self._is_asked:
                self._is_asked = True
                return {"type": "http.request", "body": self._body, "more_body": False}
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            await self.may_read.wait()
            is_first = not self.content
            self.content += message.get("body", b"")
            if is_first and self.content:
                task_status.started()

        await self._office.admin.answer(http_scope(f"{PATH}/recordings", "POST", JSON), receive, send, OLGA)
        self._ended.set()

    def disconnect(self) -> None:
        """Close the client's connection."""
        self._gone.set()

    async def end(self) -> None:
        """Wait for the end."""
        with anyio.fail_after(60):
            await self._ended.wait()

    async def stop(self) -> None:
        """Stop the recording, and wait for its end."""
        await self._office.call("DELETE", f"recordings/{self.header['id']}")
        await self.end()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.content.splitlines() if line]

    @property
    def header(self) -> dict[str, Any]:
        return self.lines[0]

    @property
    def footer(self) -> dict[str, Any]:
        return self.lines[-1]
