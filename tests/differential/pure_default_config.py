"""Our Kubernetes defaults against upstream's: every object, every value, and the order in which schemas are tried.

They are compared as manifests, so that no reading of ours stands between upstream's values and the comparison.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from apf_middleware.config import load
from apf_middleware.config.emit import emit_documents
from apf_middleware.config.problems import Problems

__all__ = ["compare_default_config"]


def compare_default_config(cases: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the first difference between the recorded objects and ours, if any."""
    problems = Problems()
    ours = [
        {"kind": one["kind"], "name": one["metadata"]["name"], "spec": one["spec"]}
        for one in emit_documents(load(defaults="kubernetes"), "v1", problems)
    ]
    if list(problems):
        return str(next(iter(problems)))
    for kind, ordered in (("FlowSchema", True), ("PriorityLevelConfiguration", False)):
        mine = [one for one in ours if one["kind"] == kind]
        theirs = [dict(one) for one in cases if one["kind"] == kind]
        names, expected = [one["name"] for one in mine], [one["name"] for one in theirs]
        if (names if ordered else sorted(names)) != (expected if ordered else sorted(expected)):
            return f"{kind}: expected {expected}, got {names}"
        by_name = {one["name"]: one for one in mine}
        for one in theirs:
            if by_name[one["name"]] != one:
                return f"expected {one}, got {by_name[one['name']]}"
    return None
