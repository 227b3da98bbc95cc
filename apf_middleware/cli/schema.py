"""``apf schema``: the JSON Schema of ``apf/v1`` for editors."""

import json

import typer

from apf_middleware.config.jsonschema import json_schema

__all__ = ["schema"]


def schema() -> None:
    """Print the JSON Schema of apf/v1, with which an editor completes, checks and explains the keys."""
    typer.echo(json.dumps(json_schema(), indent=2, sort_keys=True))
