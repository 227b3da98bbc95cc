"""Who may look, and what is shown of a controller whose every moment is known."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from starlette.types import Message, Scope

from apf_middleware.asgi.admin import MARK, Admin, Details
from apf_middleware.classification import ANONYMOUS, Classification, Identity, Resource
from apf_middleware.cli.dump import _MARK
from apf_middleware.config import Place, Problem, Severity, load_text
from apf_middleware.config.admin import AdminSettings
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.runtime import Admission, Controller, Destination
from apf_middleware.runtime.queues import NamedQueues
from apf_middleware.runtime.running_requests import RunningRequests
from tests.integration.conversation import http_scope, websocket_scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apf_middleware.config import Configuration

pytestmark = pytest.mark.anyio

SECOND = 10**9
WALL = 1_700_000_000 * SECOND  # 2023-11-14T22:13:20Z
PATH = "/debug/api_priority_and_fairness"
OPERATOR = Identity("olga", ("operators", "system:authenticated"))

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


class Knowing(Destination):
    """A destination that can tell what its requests are about."""

    __slots__ = ("details",)

    def __init__(self, controller: Controller, place: Classification, work: Work, identity: Identity) -> None:
        super().__init__(controller, place, work, identity)
        self.details = Details(
            "list", "/tenants/acme/orders\n", Resource("orders", "shop", "v1", "status", "acme", "number-7")
        )


class World:
    """A controller under a clock of our own, with its running requests recorded as in a server; it is a `View`, too."""

    def __init__(self, discipline: str = "equal-serial") -> None:
        self.time = 100 * SECOND
        self.configuration: Configuration = load_text(CONFIG.replace("DISCIPLINE", discipline))
        self.controller = Controller(self.configuration, now=lambda: self.time)
        self.queues = NamedQueues(self.controller)
        self.running = RunningRequests(self.time)
        self.problems: Sequence[Problem] = ()
        self.reloads = 0
        self.outcome: bool | None = True
        self.admin = Admin(self, AdminSettings(groups=("auditors",), operators=("operators",)), lambda: WALL)

    async def reload(self) -> bool:
        self.reloads += 1
        if self.outcome is None:
            raise InvalidValueError("config", self.configuration, "only a configuration that came from files can be")
        return self.outcome

    def comes(
        self, flow: str, *, seats: int = 1, level: str = "crowd", work: Work | None = None, entropy: int = 0
    ) -> Admission:
        place = Classification("everybody" if level == "crowd" else level, level, flow, entropy)
        admission = Admission(Knowing(self.controller, place, work or Work(seats), Identity(f"user-{flow}")))
        self.controller.arrive(self.time, admission)
        if admission.is_seated:
            self.running.note_seated(admission)
        elif admission.is_rejected:
            self.running.note_rejected(admission)
        return admission

    def ends(self, admission: Admission) -> None:
        levels = self.controller.sharing.levels.values()
        waiting = [one for level in levels for queue in level.queueset.deck for one in queue]
        self.running.note_released(admission, self.time - admission.seated_at)
        self.controller.release(admission)
        for one in waiting:
            if one.is_seated and isinstance(one, Admission):
                self.running.note_seated(one)

    async def asks(
        self,
        page: str,
        identity: Identity = OPERATOR,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
    ) -> tuple[int, dict[str, str], str]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            raise AssertionError("nobody asks for a body")

        scope = http_scope(f"{PATH}/{page}" if page else PATH, method, headers)
        assert self.admin.is_for(scope)
        await self.admin.answer(scope, receive, send, identity)
        start, body = sent
        return start["status"], {a.decode(): b.decode() for a, b in start["headers"]}, body["body"].decode()

    async def shows(self, page: str) -> str:
        status, headers, body = await self.asks(page)
        assert status == 200
        assert int(headers["content-length"]) == len(body.encode())
        return body

    async def tells(self, page: str) -> Any:  # noqa: ANN401
        status, headers, body = await self.asks(page, headers={"Accept": "application/json"})
        assert status == 200
        assert headers["content-type"] == "application/json"
        return json.loads(body)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def world() -> World:
    return World()


def busy(world: World) -> list[Admission]:
    """Two run, three wait and one is rejected; one exempt runs with a linger to come."""
    admissions = [world.comes("alice"), world.comes("bob")]
    world.time += SECOND // 2
    admissions += [world.comes("alice", seats=2), world.comes("carol\n"), world.comes("alice")]
    admissions.append(world.comes("", level="exempt", work=Work(1, 3, 1_500_000_000)))
    return admissions


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]


# Who may look


@pytest.mark.parametrize(
    "identity",
    [
        ANONYMOUS,
        Identity("system:anonymous", ("operators", "system:authenticated")),
        Identity("mallory", ("operators", "system:unauthenticated", "system:authenticated")),
        Identity("mallory", ("operators",)),
        Identity(""),
    ],
)
@pytest.mark.parametrize("page", ["dump_requests", "openapi.json", "nothing/here", ""])
async def test_who_has_not_shown_credentials_is_asked_for_them(world: World, identity: Identity, page: str) -> None:
    status, headers, body = await world.asks(page, identity)

    assert status == 401
    assert headers["www-authenticate"] == 'Bearer realm="apf"'
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["type"] == "urn:apf:admin:unauthenticated"


@pytest.mark.parametrize("page", ["dump_requests", "openapi.json", "nothing/here", ""])
async def test_who_is_in_no_allowed_group_is_refused_whatever_there_is(world: World, page: str) -> None:
    status, headers, body = await world.asks(page, Identity("bob", ("users", "system:authenticated")))

    assert status == 403
    assert "www-authenticate" not in headers
    assert "operators" not in body


async def test_one_group_of_several_is_enough(world: World) -> None:
    status, _, _ = await world.asks("flows", Identity("ada", ("users", "auditors", "system:authenticated")))

    assert status == 200


async def test_without_groups_there_is_no_admin(world: World) -> None:
    admin = Admin(world, AdminSettings(), lambda: WALL)

    assert not admin.is_for(http_scope(f"{PATH}/dump_queues"))


@pytest.mark.parametrize(
    ("scope", "is_its"),
    [
        (http_scope(PATH), True),
        (http_scope(f"{PATH}/"), True),
        (http_scope(f"{PATH}/anything/else", "DELETE"), True),
        (http_scope(f"/api{PATH}/flows", root_path="/api"), True),
        (http_scope(f"{PATH}x"), False),
        (http_scope(f"/api{PATH}/flows"), False),
        (http_scope("/"), False),
        (websocket_scope(f"{PATH}/flows"), True),
        (websocket_scope(f"{PATH}x"), False),
    ],
)
def test_everything_below_its_path_is_the_admins_and_nothing_else(world: World, scope: Scope, *, is_its: bool) -> None:
    assert world.admin.is_for(scope) is is_its


async def test_a_dump_cannot_be_changed(world: World) -> None:
    status, headers, _ = await world.asks("flows", method="POST")

    assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
async def test_a_reload_is_asked_for_by_post(world: World, method: str) -> None:
    status, headers, _ = await world.asks("reload", method=method)

    assert (status, headers["allow"], world.reloads) == (405, "POST", 0)


async def test_head_has_the_headers_and_no_body(world: World) -> None:
    status, headers, body = await world.asks("flows", method="HEAD")

    assert (status, body) == (200, "")
    assert int(headers["content-length"]) > 0


async def test_what_is_not_there_tells_what_is(world: World) -> None:
    for page in ("", "dump", "flows/", "dump_queues/x"):
        status, _, body = await world.asks(page)

        assert status == 404
        assert "dump_priority_levels, dump_queues, dump_requests, configuration, flows, queues, gates" in body


async def test_every_answer_bears_the_mark_and_is_kept_by_nobody(world: World) -> None:
    for page, identity in (("flows", OPERATOR), ("nothing", OPERATOR), ("flows", ANONYMOUS)):
        _, headers, _ = await world.asks(page, identity)

        assert headers[MARK] == "1"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
    assert MARK == _MARK, "the command line looks for the same"


@pytest.mark.parametrize(
    ("accept", "query", "is_json"),
    [
        ("", "", False),
        ("*/*", "", False),
        ("application/json", "", True),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "", False),
        ("application/json;q=0.5, text/plain", "", False),
        ("text/plain;q=0.5, application/json", "", True),
        ("application/json;q=0", "", False),
        ("application/json;q=x", "", True),
        ("application/json", "?format=text", False),
        ("text/plain", "?format=json", True),
    ],
)
async def test_the_caller_chooses_the_format(world: World, accept: str, query: str, *, is_json: bool) -> None:
    _, headers, _ = await world.asks(f"dump_priority_levels{query}", headers={"Accept": accept})

    assert headers["content-type"] == ("application/json" if is_json else "text/plain; charset=utf-8")
    assert headers["vary"] == "accept"


@pytest.mark.parametrize("page", ["flows?format=xml", "flows?by=name"])
async def test_what_a_parameter_cannot_mean_is_told(world: World, page: str) -> None:
    status, _, body = await world.asks(page)

    assert status == 400
    assert "must be" in json.loads(body)["detail"]


# What is shown


async def test_levels_are_shown_by_name(world: World) -> None:
    admissions = busy(world)
    world.comes("alice")
    world.comes("alice")
    others = [world.comes("alice") for _ in range(3)]
    world.controller.abandon(admissions[3], Reason.CANCELLED)
    world.controller.abandon(admissions[4], Reason.TIME_OUT)
    world.controller.abandon(admissions[2], Reason.TIME_OUT)
    assert [one.reason for one in others].count(Reason.QUEUE_FULL) == 2

    _, *rows = cells(await world.shows("dump_priority_levels"))

    assert rows == [
        ["catch-all", "0", "true", "false", "0", "0", "0", "0", "0", "0"],
        ["crowd", "2", "false", "false", "3", "2", "2", "5", "2", "1"],
        ["exempt", "0", "false", "false", "0", "1", "1", "0", "0", "0"],
    ]


async def test_levels_as_json_tell_their_seats_too(world: World) -> None:
    admissions = busy(world)
    world.ends(admissions[-1])
    told = await world.tells("dump_priority_levels")
    crowd, exempt = told["levels"][1:]

    assert told["seats"] == 2
    assert [level["level"] for level in told["levels"]] == ["catch-all", "crowd", "exempt"]
    wanted = {"waiting": 3, "seats_waiting": 4, "executing": 2, "seats_in_use": 2, "dispatched": 2, "nominal": 2}
    assert {key: crowd[key] for key in wanted} == wanted
    assert crowd["discipline"] == "equal-serial"
    assert crowd["meters"]["active_queues"] == 2
    assert crowd["rejected"] == {reason.value: 0 for reason in Reason}
    assert (exempt["executing"], exempt["lingering"], exempt["seats_in_use"], exempt["max"]) == (0, 1, 3, None)


async def test_a_level_that_is_to_go_is_quiescing(world: World) -> None:
    busy(world)
    sharing = world.controller.sharing
    kept = {name: (level.settings, level.limits) for name, level in sharing.levels.items() if name != "crowd"}
    sharing.reconfigure(world.time, 2, kept)

    rows = cells(await world.shows("dump_priority_levels"))

    assert rows[2][:6] == ["crowd", "2", "false", "true", "3", "2"]


async def test_a_level_that_rests_is_told_of_the_one_that_is_alone_there(world: World) -> None:
    world.comes("alice")
    assert world.controller.levels["crowd"].shared.alone is not None

    rows = cells(await world.shows("dump_priority_levels"))
    assert rows[2][2:7] == ["false", "false", "0", "1", "1"]
    [request] = (await world.tells("dump_requests"))["requests"]
    assert (request["flow"], request["position"]) == ("alice", None)


async def test_queues_are_shown_all_with_their_sums(world: World) -> None:
    busy(world)
    _, *rows = cells(await world.shows("dump_queues"))

    assert [row[:2] for row in rows] == [["catch-all", str(n)] for n in range(len(rows) - 2)] + [
        ["crowd", "0"],
        ["crowd", "1"],
    ]
    crowd = rows[-2:]
    assert sorted(int(row[2]) for row in crowd) == [1, 2]
    assert [row[3] for row in crowd] == ["1", "1"]
    assert [row[4] for row in crowd] == ["1", "1"]
    assert sum(int(row[6]) for row in crowd) == 4
    assert sum(int(row[7]) for row in crowd) == 4
    assert sum(float(row[8].removesuffix("ss")) for row in crowd) == pytest.approx(4 * 0.003)
    told = (await world.tells("dump_queues"))["queues"]
    assert [queue["next_dispatch_r"] for queue in told[-2:]] == [row[5] for row in crowd]
    assert all(row[5].endswith("ss") for row in crowd)


async def test_next_dispatch_r_is_shown_as_upstreams_meters_would_hold_it() -> None:
    world = World("equal-serial, strictUpstream: true")
    busy(world)
    before = (await world.tells("dump_queues"))["queues"][-1]["next_dispatch_r"]
    discipline: Any = world.controller.levels["crowd"].shared.queueset.discipline
    discipline.epochs = 1

    after = (await world.tells("dump_queues"))["queues"][-1]["next_dispatch_r"]

    assert float(before.removesuffix("ss")) - float(after.removesuffix("ss")) == pytest.approx((2**64 - 1) // 2 / 1e8)


@pytest.mark.parametrize("discipline", ["max-min-serial", "max-min-concurrent"])
async def test_a_discipline_without_that_meter_has_none_to_show(discipline: str) -> None:
    world = World(discipline)
    busy(world)

    assert {row[5] for row in cells(await world.shows("dump_queues"))[1:]} == {"<none>"}
    assert {queue["next_dispatch_r"] for queue in (await world.tells("dump_queues"))["queues"]} == {None}


async def test_requests_are_shown_by_level_and_queue_the_waiting_first(world: World) -> None:
    busy(world)
    _, *rows = cells(await world.shows("dump_requests"))

    assert [row[0] for row in rows] == ["crowd"] * 5 + ["exempt"]
    assert [row[2:4] for row in rows[:5]] in (
        [["0", "0"], ["0", "1"], ["0", "-1"], ["1", "0"], ["1", "-1"]],
        [["0", "0"], ["0", "-1"], ["1", "0"], ["1", "1"], ["1", "-1"]],
    )
    never = "0001-01-01T00:00:00Z"
    assert all((row[9] == never) is (row[3] != "-1") for row in rows)
    assert {(row[4], row[5], row[6], row[9]) for row in rows[:5]} == {
        ("alice", "2023-11-14T22:15:00Z", "1", "2023-11-14T22:15:00Z"),
        ("bob", "2023-11-14T22:15:00Z", "1", "2023-11-14T22:15:00Z"),
        ("alice", "2023-11-14T22:15:00.5Z", "2", never),
        ("carol\\n", "2023-11-14T22:15:00.5Z", "1", never),
        ("alice", "2023-11-14T22:15:00.5Z", "1", never),
    }
    arrived = "2023-11-14T22:15:00.5Z"
    assert rows[5] == ["exempt", "exempt", "-1", "-1", "", arrived, "1", "3", "1.5s", arrived]


async def test_those_that_run_are_shown_in_the_order_in_which_they_were_seated(world: World) -> None:
    for number in range(9):
        world.time += SECOND
        world.comes(f"{number}", level="exempt")

    assert [row[9][17:19] for row in cells(await world.shows("dump_requests"))[1:]] == [f"{n:02}" for n in range(1, 10)]


async def test_who_has_finished_and_lingers_runs_no_more(world: World) -> None:
    admissions = busy(world)
    world.ends(admissions[-1])
    world.running.admissions.add(admissions[-1])  # even if the record should be late

    assert "exempt" not in await world.shows("dump_requests")


@pytest.mark.parametrize("value", ["1", "false", "yes"])
async def test_details_tell_whose_a_request_is_and_what_about(world: World, value: str) -> None:
    busy(world)
    head, *rows = cells(await world.shows(f"dump_requests?includeRequestDetails={value}"))

    about = ["list", "/tenants/acme/orders\\n", "acme", "number-7", "shop/v1", "orders", "status"]
    assert head[10:] == ["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"]
    assert {tuple(row[11:]) for row in rows} == {tuple(about)}
    assert rows[-1][10] == "user-"
    told = (await world.tells(f"dump_requests?includeRequestDetails={value}"))["requests"]
    assert {key: value for key, value in told[-1].items() if isinstance(value, str) and not key.endswith("_at")} == {
        "level": "exempt",
        "schema": "exempt",
        "flow": "",
        "user": "user-",
        "verb": "list",
        "path": "/tenants/acme/orders\n",
        "namespace": "acme",
        "name": "number-7",
        "api_group": "shop",
        "api_version": "v1",
        "resource": "orders",
        "subresource": "status",
    }


@pytest.mark.parametrize("page", ["dump_requests", "dump_requests?includeRequestDetails="])
async def test_without_details_nobody_is_named(world: World, page: str) -> None:
    busy(world)

    assert "user-" not in await world.shows(page)
    assert "APIPath" not in await world.shows(page)
    assert "user" not in (await world.tells(page))["requests"][0]


async def test_a_destination_that_cannot_tell_leaves_the_columns_empty(world: World) -> None:
    place = Classification("exempt", "exempt", "", 0)
    admission = Admission(Destination(world.controller, place, Work(), Identity("bob")))
    world.controller.arrive(world.time, admission)
    world.running.note_seated(admission)

    [row] = cells(await world.shows("dump_requests?includeRequestDetails=1"))[1:]

    assert row[10:] == ["bob", *[""] * 7]


async def test_requests_as_json_tell_the_same(world: World) -> None:
    busy(world)
    told = (await world.tells("dump_requests"))["requests"]

    assert told[-1] == {
        "level": "exempt",
        "schema": "exempt",
        "flow": "",
        "queue": None,
        "position": None,
        "arrived_at": "2023-11-14T22:15:00.5Z",
        "seated_at": "2023-11-14T22:15:00.5Z",
        "seats": 1,
        "final_seats": 3,
        "linger": 1.5,
        "width": 3,
        "held_by": None,
    }
    assert sorted(one["flow"] for one in told) == ["", "alice", "alice", "alice", "bob", "carol\n"]


async def test_heavy_flows_are_shown_by_what_they_had_wanted_and_have(world: World) -> None:
    admissions = busy(world)
    world.comes("alice")
    for _ in range(5):
        world.comes("dave")
    world.time += SECOND
    world.ends(admissions[0])

    told = {flow["flow"]: flow for flow in (await world.tells("flows"))["flows"]}

    assert told["alice"]["work"] == 1.5
    assert {key: told["dave"][key] for key in ("work", "rejected", "waiting")} == {
        "work": 0.0,
        "rejected": 3,
        "waiting": 2,
    }
    assert (told["bob"]["executing"], told["bob"]["seats_in_use"]) == (1, 1)
    assert next(row[2] for row in cells(await world.shows("flows"))[1:]) == "alice"
    assert next(row[2] for row in cells(await world.shows("flows?by=rejected"))[1:]) == "dave"
    first = cells(await world.shows("flows?by=waiting"))[1]
    assert int(first[7]) == max(flow["waiting"] for flow in told.values())
    assert ["1.50000000ss", "0.00000000ss"] in [row[3:5] for row in cells(await world.shows("flows"))]


async def test_no_more_than_the_heaviest_flows_are_shown(world: World) -> None:
    for number in range(500):
        world.running.work.add(("crowd", "everybody", f"w{number}"), number)
        world.running.rejections.add(("crowd", "everybody", f"r{number}"), number)

    told = (await world.tells("flows"))["flows"]

    assert len(told) == 40
    assert [flow["flow"] for flow in told[:2]] == ["w499", "w498"]


async def test_what_was_long_ago_is_forgotten_when_somebody_looks(world: World) -> None:
    world.running.work.add(("crowd", "everybody", "alice"), 8 * SECOND)
    world.time += 60 * SECOND

    assert [flow["work"] for flow in (await world.tells("flows"))["flows"]] == [4.0]


async def test_the_configuration_is_shown_so_that_it_can_be_loaded(world: World) -> None:
    text = await world.shows("configuration")

    assert text.startswith("# No warnings.\n---\n")
    assert load_text(text) == world.configuration
    told = await world.tells("configuration")
    assert told["problems"] == []
    assert {one["kind"] for one in told["documents"]} == {"Server", "PriorityLevel", "FlowSchema"}


async def test_what_is_odd_is_told_above_the_configuration(world: World) -> None:
    await world.shows("configuration")
    warning = Problem(Place("apf.yaml", 1, 7), "spec", "a\nb: {}", "it is odd\nkind: Server", "", Severity.WARNING)
    world.problems = [warning]

    first, *rest = (await world.shows("configuration")).splitlines()

    assert first.startswith("# apf.yaml:7 (document 1): warning: spec is")
    assert rest[0] == "---"
    [told] = (await world.tells("configuration"))["problems"]
    assert (told["line"], told["rule"]) == (7, "it is odd\nkind: Server")


async def test_another_configuration_is_written_anew(world: World) -> None:
    before = await world.shows("configuration")
    world.configuration = load_text(CONFIG.replace("seats: 2", "seats: 77").replace("DISCIPLINE", "equal-serial"))

    after = await world.shows("configuration")

    assert "seats: 2\n" in before
    assert "seats: 77\n" in after
    assert (await world.tells("configuration"))["documents"][0]["spec"]["seats"] == 77
