"""The settings of a configuration that is tried."""

import pytest

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.shadow import ShadowSettings

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: 10, shadow: {shadow}}}"


def test_a_file_is_named() -> None:
    found = load_text(SERVER.format(shadow="{file: new.yaml, classifyOnly: true}")).server.shadow
    assert found == ShadowSettings("new.yaml", classify_only=True)
    assert load_text(SERVER.format(shadow="null")).server.shadow is None


@pytest.mark.parametrize("wrong", ["{}", "{file: ''}", "{file: new.yaml, classifyOnly: 1}", "new.yaml"])
def test_what_is_no_shadow(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=r"spec\.shadow"):
        load_text(SERVER.format(shadow=wrong))
