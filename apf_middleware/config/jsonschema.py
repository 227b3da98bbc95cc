"""The JSON Schema of ``apf/v1``, for editors: ``python -m apf_middleware.config.jsonschema`` writes it anew.

It is generated from the models, so it can't fall behind them; rules between fields stay with the models alone.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from apf_middleware.config.dialects.apf import FlowSchemaModel, PriorityLevelModel
from apf_middleware.config.dialects.server import ServerModel

__all__ = ["FILE", "json_schema", "main", "written"]

FILE: Final = Path(__file__).parent / "schema" / "apf-v1.json"
"""The shipped schema."""

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Of one document of any kind."""
    kinds: TypeAdapter[Any] = TypeAdapter(
        Annotated[PriorityLevelModel | FlowSchemaModel | ServerModel, Field(discriminator="kind")]
    )
    return {"$schema": _DRAFT, "title": "apf/v1"} | kinds.json_schema(by_alias=True)


def written() -> str:
    """The file's text."""
    return json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write the file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(written())


if __name__ == "__main__":
    main()
