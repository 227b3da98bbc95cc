"""The parts of a scope that servers write in different ways."""

import pytest

from apf_middleware.asgi.scope import path_of, peer_address


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (None, ""),
        ([], ""),
        (["192.0.2.1", 1], "192.0.2.1"),
        (("::ffff:192.0.2.1", 1), "192.0.2.1"),
        (("::ffff:odd", 1), "::ffff:odd"),
        (("::ffff:0001", 1), "::ffff:1"),
        ((None, 1), ""),
        ("192.0.2.1", ""),
    ],
)
def test_the_peer_is_what_the_server_says(client: object, expected: str) -> None:
    assert peer_address({"client": client}) == expected
    assert peer_address({}) == ""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/report", "/report"),
        ("", "/"),
        ("*", "*"),
        ("/report\n", "/report"),
        ("/report\n\n", "/report\n"),
        ("/report/\n", "/report/\n"),
        ("http://shop/report", "/report"),
        ("http://shop/report\n", "/report"),
        ("http://shop/report;x?y#z", "/report"),
        ("http://shop", "/"),
        ("x:/report", "/report"),
        ("report", "/report"),
        ("http://[", "http://["),
    ],
)
def test_the_path_is_what_routes_may_take_it_for(path: str, expected: str) -> None:
    assert path_of({"path": path}) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/api/report", "/report"), ("/api", "/"), ("/apireport", "/apireport"), ("http://shop/api/report\n", "/report")],
)
def test_the_prefix_of_a_mount_is_left_out(path: str, expected: str) -> None:
    assert path_of({"path": path, "root_path": "/api"}) == expected
