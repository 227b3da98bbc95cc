"""Requests to the admin: bodies, and pages of other sites."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from apf_middleware.asgi.admin.protocol import LONGEST_BODY
from tests.support.admin_world import JSON, DescribedAdmin

if TYPE_CHECKING:
    from starlette.types import Message


pytestmark = pytest.mark.anyio


@pytest.fixture
def office() -> DescribedAdmin:
    return DescribedAdmin()


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"weight": 2}', {}, 415),
        (b'{"weight": 2}', {"Content-Type": "text/plain"}, 415),
        (b"weight=2", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b'{"weight": 2}', {"Content-Type": "Application/JSON; charset=utf-8"}, 200),
        (b"", JSON, 400),
        (b"{", JSON, 400),
        (b"[1]", JSON, 400),
        (b"null", JSON, 400),
        (b'{"weight": 1, "weight": 2}', JSON, 400),
        (b"\xff\xfe", JSON, 400),
        (b"[" * 20_000, JSON, 400),
        (b'{"weight": ' + b"1" * 5_000 + b"}", JSON, 400),
        (b'{"weight": NaN}', JSON, 400),
        (b'{"weight": -Infinity}', JSON, 400),
        (b'{"weight": 1e400}', JSON, 400),
        (b" " * LONGEST_BODY + b"{}", JSON, 413),
    ],
)
async def test_a_body_must_be_json_and_declared_as_such(
    office: DescribedAdmin, body: bytes, headers: Mapping[str, str], status: int
) -> None:
    assert (await office.call("PATCH", "queues/crowd", body, headers=headers))[0] == status


async def test_a_body_without_an_end_times_out(office: DescribedAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apf_middleware.asgi.admin.protocol._BODY_TIMEOUT_S", 0.01)
    beginning: Message = {"type": "http.request", "body": b"{", "more_body": True}

    assert (await office.call("PATCH", "queues/crowd", parts=[beginning]))[0] == 408
    assert (await office.call("PATCH", "queues/crowd", parts=[beginning, {"type": "http.disconnect"}]))[0] == 400
    long: list[Message] = [{**beginning, "body": b" " * 1024}] * 100
    assert (await office.call("PATCH", "queues/crowd", parts=long))[0] == 413


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
async def test_a_page_of_another_site_can_change_nothing(office: DescribedAdmin, site: str, status: int) -> None:
    headers = {**JSON, "Sec-Fetch-Site": site}

    assert (await office.call("PATCH", "queues/crowd", {"weight": 7}, headers=headers))[0] == status
    assert office.queues.status("crowd").weight == (7 if status == 200 else 1000)
