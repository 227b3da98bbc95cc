"""The command ``apf schema``."""

import json
from collections.abc import Callable

from apf_middleware.config.jsonschema import json_schema
from tests.support.command_line import Outcome


def test_the_schema_is_printed_as_json(apf: Callable[..., Outcome]) -> None:
    result = apf("schema")

    assert result.returncode == 0
    assert json.loads(result.stdout) == json_schema()
