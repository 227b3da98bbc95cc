"""Levels and schemas, and the warnings about them."""

from apf_middleware.config import read_source

__all__ = ["ALICE", "BOB", "EVERYTHING", "SERVER", "USERS", "level", "schema", "warnings"]

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {defaults: none, seats: %s}\n"


def level(name: str, spec: str = "{}") -> str:
    return f"---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def schema(name: str, precedence: int, rule: str, to: str = "exempt", more: str = "") -> str:
    spec = f"{{level: {to}, precedence: {precedence}, rules: [{rule}]{more}}}"
    return f"---\napiVersion: apf/v1\nkind: FlowSchema\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def warnings(text: str, seats: int = 100, more: str = "") -> list[str]:
    """Return the warnings about a Server document, with ``more`` settings, and the documents of the ``text``."""
    server = SERVER.replace("defaults", f"{more}, defaults") if more else SERVER
    reading = read_source(server % seats + text)
    assert reading.errors == ()
    return [f"{one.place.document} {one.field}: {one.rule}" for one in reading.warnings]


USERS = ", distinguisher: {source: user}"
EVERYTHING = "{httpRules: [{}]}"
ALICE = "{subjects: [{user: alice}], httpRules: [{}]}"
BOB = "{subjects: [{user: bob}], httpRules: [{}]}"
