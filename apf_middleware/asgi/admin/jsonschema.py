"""The words of JSON Schema in which the admin's answers and orders are described."""

from typing import Any, Final

__all__ = [
    "COUNT",
    "FLAG",
    "METER",
    "NUMBER",
    "TEXT",
    "TIME",
    "WORK",
    "Schema",
    "list_of",
    "map_of",
    "object_of",
    "or_null",
]

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
FLAG: Final[Schema] = {"type": "boolean"}
NUMBER: Final[Schema] = {"type": "number", "minimum": 0}
METER: Final[Schema] = {"type": "integer"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
WORK: Final[Schema] = {"type": "string", "pattern": r"^-?\d+\.\d{8}ss$"}


def or_null(schema: Schema) -> Schema:
    """This, or nothing."""
    return {**schema, "type": [schema["type"], "null"]}


def object_of(*optional: str, **properties: Schema) -> Schema:
    """An object of these, and of nothing else."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def map_of(schema: Schema) -> Schema:
    """Texts, each with one of these."""
    return {"type": "object", "additionalProperties": schema}


def list_of(name: str) -> Schema:
    """Several of what has this name."""
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}
