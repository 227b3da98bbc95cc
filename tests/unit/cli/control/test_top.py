"""Keys of the live screen."""

from apf_middleware.cli.control.top import keys_in
from apf_middleware.cli.control.top_screen import Key


def test_keys_are_parsed_as_terminals_send_them() -> None:
    assert list(keys_in("pj\x1b[A\x1bOBq")) == ["p", "j", Key.UP, Key.DOWN, "q"]
    assert list(keys_in("\x1b")) == [Key.ESCAPE]
    assert list(keys_in("\x1b[15~cs")) == [Key.ESCAPE], "no part of an unknown key is taken for an order"
