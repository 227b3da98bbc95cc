"""The shadow in the admin: who may start it, what is shown, and what is written to the log."""

import json
import logging

import pytest

from apf_middleware.config import Place, Problem
from tests.support.admin_world import CONFIG, LOUIS, DescribedAdmin

pytestmark = pytest.mark.anyio

NEW = CONFIG.replace("DISCIPLINE", "equal-serial").replace("seats: 2", "seats: 9")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def office() -> DescribedAdmin:
    return DescribedAdmin()


async def test_an_operator_starts_and_ends_a_trial(office: DescribedAdmin, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    status, answer = await office.call("GET", "shadow", identity=LOUIS)
    assert (status, answer["shadow"]) == (200, None)

    status, answer = await office.call("PUT", "shadow", {"configuration": NEW, "source": "new.yaml"})
    assert status == 200
    found = answer["shadow"]
    assert (found["state"], found["source"], found["seats"], found["classify_only"]) == (
        "running",
        "new.yaml",
        9,
        False,
    )
    assert office.observers

    status, answer = await office.call("GET", "shadow", identity=LOUIS)
    assert (status, answer["shadow"]["requests"]) == (200, 0)
    assert {one["level"] for one in answer["shadow"]["levels"]} == {"crowd", "exempt", "catch-all"}

    status, answer = await office.call("DELETE", "shadow")
    assert (status, answer["shadow"]["source"]) == (200, "new.yaml")
    assert not office.observers
    changes = [record.getMessage() for record in caplog.records if "by=" in record.getMessage()]
    assert changes == [
        'apf.shadow-begun by="olga (http)" source="new.yaml" classify_only=False',
        'apf.shadow-ended by="olga (http)"',
    ]


async def test_a_name_and_all_parts_may_be_left_out(office: DescribedAdmin) -> None:
    status, answer = await office.call("PUT", "shadow", {"configuration": NEW, "classifyOnly": True})

    assert (status, answer["shadow"]["source"], answer["shadow"]["classify_only"]) == (200, "the request", True)


async def test_a_name_can_forge_no_line_of_the_log(office: DescribedAdmin, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    await office.call("PUT", "shadow", {"configuration": NEW, "source": "a\nb\x1b[31m"})
    await office.call("DELETE", "shadow")

    messages = [record.getMessage() for record in caplog.records]
    assert any(message.startswith("apf.shadow-started") for message in messages)
    assert all(message.isprintable() for message in messages)


async def test_a_long_configuration_is_accepted_and_a_huge_one_is_not(office: DescribedAdmin) -> None:
    status, _ = await office.call("PUT", "shadow", {"configuration": NEW + "# long\n" * 30_000})
    assert status == 200

    status, _ = await office.call("PUT", "shadow", {"configuration": NEW + "# long\n" * 300_000})
    assert status == 413


@pytest.mark.parametrize(
    ("method", "page", "order", "status"),
    [
        ("PUT", "shadow", {"configuration": "seats: ["}, 422),
        ("PUT", "shadow", {"configuration": NEW.replace("seats: 9", "seats: -9")}, 422),
        ("PUT", "shadow", {}, 422),
        ("PUT", "shadow", {"configuration": 7}, 422),
        ("PUT", "shadow", {"configuration": NEW, "classifyOnly": "yes"}, 422),
        ("DELETE", "shadow", None, 200),
        ("POST", "shadow/promote", {}, 404),
        ("POST", "shadow", {}, 405),
        ("GET", "shadow/other", None, 404),
    ],
)
async def test_what_changes_nothing(office: DescribedAdmin, method: str, page: str, order: object, status: int) -> None:
    found, _ = await office.call(method, page, order)

    assert found == status
    assert office.shadow.trial is None


async def test_errors_of_a_configuration_have_their_places(office: DescribedAdmin) -> None:
    wrong = {"configuration": NEW.replace("seats: 9", "seats: -9"), "source": "new.yaml"}
    _, answer = await office.call("PUT", "shadow", wrong)

    assert "new.yaml:5" in answer["errors"][0]["rule"]


async def test_readers_may_not_start_one(office: DescribedAdmin) -> None:
    for method, page in (("PUT", "shadow"), ("DELETE", "shadow"), ("POST", "shadow/promote")):
        status, _ = await office.call(method, page, {"configuration": NEW}, identity=LOUIS)
        assert status == 403
    assert office.shadow.trial is None


async def test_a_trial_is_promoted(office: DescribedAdmin, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    await office.call("PUT", "shadow", {"configuration": NEW, "source": "new.yaml"})
    office.promotion = (Problem(Place("new.yaml"), "spec.discipline", "x", "it can't change while the server runs"),)
    status, answer = await office.call("POST", "shadow/promote", {})
    assert status == 422
    assert "it can't change while the server runs" in json.dumps(answer)

    office.promotion = ()
    status, answer = await office.call("POST", "shadow/promote", {})
    assert (status, answer["shadow"]["source"]) == (200, "new.yaml")
    assert 'apf.shadow-promoted by="olga (http)" source="new.yaml"' in caplog.text
    assert office.shadow.was_promoted


async def test_a_trial_that_failed_is_not_promoted(office: DescribedAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise LookupError("a defect")

    await office.call("PUT", "shadow", {"configuration": NEW})
    monkeypatch.setattr("apf_middleware.runtime.shadow.server.ShadowServer.settle", fail)
    status, answer = await office.call("POST", "shadow/promote", {})

    assert (status, answer["type"]) == (409, "urn:apf:admin:shadow-failed")


async def test_a_promotion_by_another_member_is_one(office: DescribedAdmin) -> None:
    office.shadow.was_promoted = True
    status, answer = await office.call("POST", "shadow/promote", {})

    assert (status, answer["shadow"]) == (200, None)
