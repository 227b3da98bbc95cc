"""The parts of a scope that servers write in different ways."""

import pytest

from apf_middleware.asgi.scope import peer_address


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
