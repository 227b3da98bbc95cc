"""The admin's explanations: parameters in, facts out."""

from urllib.parse import urlencode

import pytest

from apf_middleware.classification import Identity
from tests.support.admin_world import AdminWorld

pytestmark = pytest.mark.anyio

READER = Identity("anna", ("auditors", "system:authenticated"))


async def test_a_request_is_explained_to_readers_too() -> None:
    query = urlencode({"method": "post", "url": "/orders?a=1", "user": "alice", "group": "staff"})
    status, headers, body = await AdminWorld().get(f"explain?{query}", READER)

    assert (status, headers["content-type"]) == (200, "application/json")
    assert '"schema": "everybody", "level": "crowd"' in body
    assert '"user": "alice", "groups": ["staff", "system:authenticated"]' in body


async def test_groups_and_headers_may_be_repeated() -> None:
    groups, headers = [("group", "a"), ("group", "b")], [("header", "X-One: 1"), ("header", "X-Two:2")]
    query = urlencode([*groups, ("user", "alice"), *headers])
    status, _, body = await AdminWorld().get(f"explain?{query}")

    assert status == 200
    assert '"groups": ["a", "b", "system:authenticated"]' in body


@pytest.mark.parametrize("header", ["%FF:a", "%E2%82%AC:%E2%82%AC"])
async def test_a_header_may_have_any_characters(header: str) -> None:
    assert (await AdminWorld().get(f"explain?header={header}"))[0] == 200


async def test_a_request_without_parameters_is_that_of_an_anonymous_client_for_the_root() -> None:
    assert '"user": "system:anonymous"' in await AdminWorld().get_text("explain")


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("colour=red", "There is no parameter 'colour'; there are method, url,"),
        ("header=nothing", "The header 'nothing' must be written NAME:VALUE."),
        ("header=%3Anothing", "must be written NAME:VALUE."),
        ("url=orders", "its path doesn't begin with a slash"),
        ("url=http://[", "it is no URL"),
        ("client=999.1.1.1", "client is '999.1.1.1', but it is no IP address"),
        ("&".join(["group=a"] * 101), "The query can't be read"),
        ("group=%FF", "group"),
    ],
)
async def test_bad_parameters_are_named(query: str, detail: str) -> None:
    status, _, body = await AdminWorld().get(f"explain?{query}")

    if query == "group=%FF":  # such a name can't match anything
        assert status == 200
    else:
        assert status == 400
    assert detail in body


async def test_nothing_can_be_changed() -> None:
    assert (await AdminWorld().get("explain", method="POST"))[0] == 405
