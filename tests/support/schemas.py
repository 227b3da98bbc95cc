"""Small schemas, and a classifier of them."""

from typing import Any

from apf_middleware.classification import (
    Classifier,
    Distinguisher,
    FlowSchema,
    NonResourceRule,
    Rule,
    Source,
    UserSubject,
)
from apf_middleware.fairqueuing import flow_hash

__all__ = ["LAST", "TOP", "classifier", "schema"]

LAST = FlowSchema("last", "catch-all", distinguisher=Distinguisher(Source.USER))
TOP = FlowSchema("top", "exempt")


def schema(name: str, precedence: int = 1000, *, paths: tuple[str, ...] = ("*",), **more: Any) -> FlowSchema:  # noqa: ANN401
    rules = (Rule((UserSubject("*"),), non_resource_rules=(NonResourceRule(("*",), paths),)),)
    return FlowSchema(name, f"level-{name}", precedence, rules, **more)


def classifier(*schemas: FlowSchema, **more: Any) -> Classifier:  # noqa: ANN401
    arguments: dict[str, Any] = {"hash_flow": flow_hash, "fallback": LAST, "masters_fallback": TOP}
    return Classifier(schemas, **arguments | more)
