"""A second configuration sees the requests of an app, and touches nothing."""

from typing import TYPE_CHECKING

import anyio
import pytest

from apf_middleware.asgi.shadow import ShadowTrial
from apf_middleware.asgi.shadow_control import read_trial
from tests.support.asgi_exchange import Exchange, http_scope
from tests.support.protected_app import ProtectedApp, configuration, settle
from tests.support.upload_app import UploadApp

if TYPE_CHECKING:
    from apf_middleware.config import Configuration
    from apf_middleware.snapshots.shadow import ShadowSnapshot

pytestmark = pytest.mark.anyio

OTHER = """
apiVersion: apf/v1
kind: Server
spec: {seats: 9, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: batch}
spec: {shares: 1000, lendablePercent: 50, queuing: {queues: 2, handSize: 1, queueLengthLimit: 9}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: reports}
spec: {level: batch, rules: [{httpRules: [{paths: [/reports/*]}]}], distinguisher: {source: header, name: X-User}}
"""


def trial_of(config: "Configuration") -> ShadowTrial:
    return ShadowTrial(config, "", "same.yaml")


async def report(app: ProtectedApp) -> "ShadowSnapshot":
    found = await app.middleware.service.shadow.report()
    assert found is not None
    return found


async def test_the_same_configuration_decides_the_same() -> None:
    config = configuration(seats=2, length=1, queues=1)
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks, config)
        app.middleware.service.shadow.start(trial_of(config))
        holders = [await app.holder("/hold/1"), await app.holder("/hold/2")]
        waiting = app.request("/waiting")
        await settle()
        rejected = await app.request("/rejected").end()
        app.finish("/hold/1")
        await waiting.end()
        leaving = app.request("/leaving")
        app.finish("/hold/2")
        await leaving.end()
        for one in holders:
            await one.end()

        found = await report(app)
        assert rejected.status == 429
        assert (found.requests, found.otherwise, found.decided, found.agreeing) == (5, 0, 5, 5)
        assert {(one.real, one.requests) for one in found.decisions} == {
            ("at-once", 3),
            ("waited", 1),
            ("rejected", 1),
        }
        assert found.assumed == 0
        assert found.lag == 0


async def test_a_client_that_hangs_up_leaves_both() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        app.middleware.service.shadow.start(trial_of(configuration()))
        await app.holder()
        waiting = app.request("/waiting")
        await settle()
        waiting.disconnect()
        await waiting.end()
        app.finish()
        await settle()

        found = await report(app)
        [schema] = found.schemas
        assert schema.rejected == {"cancelled": 1}
        assert found.agreeing == found.decided == 2


async def test_a_client_that_leaves_before_its_body_has_arrived_takes_no_seats() -> None:
    async with anyio.create_task_group() as tasks:
        app = UploadApp(tasks)
        config = app.middleware.service.configuration
        app.middleware.service.shadow.start(trial_of(config))
        leaving = app.open("/leaving").body(b"a part", more=True)
        await settle()
        leaving.disconnect()
        await leaving.end()
        served = app.open("/served").body(b"all of it")
        await served.end()

        found = await app.middleware.service.shadow.report()
        assert found is not None
        assert {(one.real, one.shadow, one.requests) for one in found.decisions} == {
            ("at-once", "at-once", 1),
            ("rejected", "rejected", 1),
        }
        assert found.assumed == 0
        assert found.schemas[0].rejected == {"cancelled": 1}


async def test_another_configuration_classifies_and_decides_for_itself() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        app.middleware.service.shadow.start(read_trial(OTHER, "new.yaml"))
        await app.holder("/reports/1")
        waiting = app.request("/reports/2", user="bob\n")
        await settle()
        app.finish("/reports/1")
        await waiting.end()
        await app.request("/reports/2", user="bob\n").end()
        await app.request("/orders").end()

        found = await report(app)
        assert found.otherwise == 4
        first, second = found.differences
        assert (first.real_schema, first.real_level) == ("everybody", "crowd")
        assert (first.schema, first.level, first.requests) == ("reports", "batch", 3)
        assert [(one.method, one.path, one.user) for one in first.examples][:2] == [
            ("GET", "/reports/1", "system:anonymous"),
            ("GET", "/reports/2", "system:anonymous"),
        ]
        assert second.schema == "catch-all"
        assert {(one.real, one.shadow): one.requests for one in found.decisions} == {
            ("at-once", "at-once"): 3,
            ("waited", "at-once"): 1,
        }
        flows = {one.flow: (one.requests, one.otherwise) for one in found.flows}
        assert flows == {"holder": (1, 1), "bob\n": (2, 2), "": (1, 1)}
        schemas = {one.schema: (one.requests, one.otherwise) for one in found.schemas}
        assert schemas == {"reports": (3, 3), "catch-all": (1, 1)}


async def test_with_classification_alone_nothing_waits() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        app.middleware.service.shadow.start(read_trial(OTHER, "new.yaml", classify_only=True))
        for path in ("/reports/1", "/orders"):
            await app.request(path).end()

        found = await report(app)
        assert (found.requests, found.otherwise, found.decided) == (2, 2, 0)
        assert found.levels == ()


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_a_server_that_limits_nothing_can_try_a_configuration(mode: str) -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks, configuration(server=f", mode: '{mode}'"))
        app.middleware.service.shadow.start(trial_of(configuration()))
        await app.holder()
        others = [app.request("/1"), app.request("/2")]
        await settle()
        app.finish()
        for one in others:
            await one.end()
        await settle()

        # In the mode observe, virtual requests end by timers.
        found = await report(app)
        for _ in range(1000):
            if found.decided < 3:
                await anyio.sleep(0.001)
                found = await report(app)
        [schema] = found.schemas
        assert (schema.at_once, schema.waits.requests) == (1, 2)
        if mode == "observe":
            assert found.agreeing == found.decided == 3
        else:
            assert {one.real for one in found.decisions} == {"passed"}


async def test_what_waits_when_the_server_is_switched_off_goes_on_in_the_shadow() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        app.middleware.service.shadow.start(trial_of(configuration()))
        await app.holder()
        waiting = app.request("/waiting")
        await settle()
        app.middleware.service.switch("off")
        await waiting.end()
        app.finish()
        await settle()
        await app.request("/later").end()

        found = await report(app)
        assert {(one.real, one.shadow) for one in found.decisions} == {
            ("at-once", "at-once"),
            ("passed", "waited"),
            ("passed", "at-once"),
        }
        assert found.assumed == 1


async def test_an_error_ends_the_shadow_and_no_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        control = app.middleware.service.shadow
        control.start(trial_of(configuration()))

        def fail(*_: object) -> None:
            raise LookupError("defect")

        assert control._shadow is not None
        monkeypatch.setattr(control._shadow.places, "_classify", fail)
        assert (await app.request("/first").end()).status == 200
        assert (await app.request("/second").end()).status == 200

        found = await report(app)
        assert (found.state, found.error, found.requests) == ("failed", "LookupError: defect", 1)
        assert not control.is_running
        assert not app.middleware.service.observers
        assert "apf.shadow-failed" in caplog.text
        assert "Traceback" in caplog.text

        control.start(trial_of(configuration()))
        assert (await report(app)).state == "running"


async def test_deadlines_are_those_of_the_tried_configuration() -> None:
    async with anyio.create_task_group() as tasks:
        app = ProtectedApp(tasks)
        config = configuration(server=", deadlines: {headers: {x-timeout: milliseconds}}")
        app.middleware.service.shadow.start(trial_of(config))
        await app.holder()
        late = http_scope("/late", headers={"X-Timeout": "1"})
        exchange = Exchange(app.middleware, late, tasks).body().start()
        await settle()
        await anyio.sleep(0.002)  # after its arrival
        app.finish()
        assert (await exchange.end()).status == 200

        found = await report(app)
        [schema] = found.schemas
        assert schema.rejected == {"deadline": 1}
