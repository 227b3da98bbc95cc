"""The modes of a server, as configurations name them."""

from apf_middleware.config import load_text
from apf_middleware.mode import MODES


def test_a_configuration_may_name_any_mode() -> None:
    """A plain ``on`` or ``off`` is no truth value here."""
    for mode in MODES:
        assert load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {{mode: {mode}}}").server.mode == mode
    assert load_text("apiVersion: apf/v1\nkind: Server\nspec: {}").server.mode == "on"
