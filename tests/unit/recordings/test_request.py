"""Recorded requests as they are listed."""

import pytest

from apf_middleware.recordings import RecordedRequest


@pytest.mark.parametrize(
    ("by", "name"),
    [("user", "alice\\n"), ("address", "10.1.2.3"), ("path", "/reports/{name}"), ("flow", "everybody/t1")],
)
def test_a_request_is_listed_by_its_printable_properties(by: str, name: str) -> None:
    request = RecordedRequest(
        0,
        None,
        user="alice\n",
        path="/reports/7?x=1",
        address="10.1.2.3",
        route="/reports/{name}",
        schema="everybody",
        flow="t1",
    )

    assert request.listed_as(by) == name


def test_what_is_unknown_has_a_name_too() -> None:
    request = RecordedRequest(0, None, path="/a/b?secret=1")

    listed = [request.listed_as(by) for by in ("user", "address", "path", "flow")]
    assert listed == ["(anonymous)", "(unknown)", "/a/b", "(unknown)"]
