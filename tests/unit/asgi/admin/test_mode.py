"""The mode: what the admin shows, who may change it, and what is written to the log."""

import logging

import pytest

from tests.support.admin_world import LOUIS, DescribedAdmin

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def office() -> DescribedAdmin:
    return DescribedAdmin()


async def test_the_mode_is_shown_with_the_requests_that_have_passed(office: DescribedAdmin) -> None:
    office.mode, office.passed["observe"] = "observe", 7
    status, answer = await office.call("GET", "mode", identity=LOUIS)

    assert status == 200
    assert (answer["mode"], answer["passed"]) == ("observe", {"observe": 7, "off": 0})


async def test_an_operator_changes_it(office: DescribedAdmin, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apf_middleware")
    status, answer = await office.call("PUT", "mode", {"mode": "off"})

    assert (status, answer["mode"], office.mode) == (200, "off", "off")
    [record] = caplog.records
    assert record.getMessage() == 'apf.mode-switched by="olga (http)" mode="off" before="on"'


@pytest.mark.parametrize(
    ("method", "page", "order", "expected"),
    [
        ("PUT", "mode", {"mode": "dry-run"}, (422, "mode: it must be one of on, observe, off.")),
        ("PUT", "mode", {"mode": True}, (422, "mode: it must be one of on, observe, off.")),
        ("PUT", "mode", {}, (422, "mode: it must be there.")),
        ("PUT", "mode", {"mode": "off", "until": 7}, (422, "until: there is no such field.")),
        ("PUT", "mode", b"off", (400, "The body must be a JSON object: ")),
        ("POST", "mode", {}, (405, "The methods of this page are GET, HEAD, PUT.")),
        ("GET", "mode/off", None, (404, "Here are ")),
    ],
)
async def test_what_is_no_change_of_the_mode(
    office: DescribedAdmin, method: str, page: str, order: object, expected: tuple[int, str]
) -> None:
    found, answer = await office.call(method, page, order)

    assert (found, office.mode) == (expected[0], "on")
    assert answer["detail"].startswith(expected[1])


async def test_readers_may_not_change_it(office: DescribedAdmin) -> None:
    status, _ = await office.call("PUT", "mode", {"mode": "off"}, identity=LOUIS)

    assert (status, office.mode) == (403, "on")
