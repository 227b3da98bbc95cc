"""How snapshots become JSON: forms of fields, and their schemas."""

from dataclasses import dataclass, fields
from typing import Annotated

import pytest
from pydantic import TypeAdapter

from apf_middleware import snapshots
from apf_middleware.snapshots import Count, JSONForm, NamedQueueSnapshot, Work, fleet, requests, shadow


@dataclass(frozen=True, slots=True)
class Example:
    number: Count
    work: Work | None
    choice: Annotated[str, JSONForm(enum=["a", "b"])]


class Writer:
    """A context whose methods the forms name."""

    @staticmethod
    def work(work: int) -> str:
        return f"{work}!"


@pytest.mark.parametrize("work", [7, None])
def test_a_json_form_writes_by_a_method_of_the_context(work: int | None) -> None:
    written = TypeAdapter(Example).serializer.to_python(Example(1, work, "a"), context=Writer())

    assert written == {"number": 1, "work": None if work is None else "7!", "choice": "a"}


def test_a_json_form_replaces_or_extends_the_schema_of_the_type() -> None:
    schema = TypeAdapter(Example).json_schema(mode="serialization")["properties"]

    assert schema["number"] == {"minimum": 0, "title": "Number", "type": "integer"}
    assert schema["work"]["anyOf"] == [{"pattern": r"^-?\d+\.\d{8}ss$", "type": "string"}, {"type": "null"}]
    assert schema["choice"]["enum"] == ["a", "b"]


def test_every_snapshot_is_frozen_and_small() -> None:
    modules = (snapshots, fleet, requests, shadow)
    found = [getattr(module, name) for module in modules for name in module.__all__ if name.endswith("Snapshot")]

    assert len(found) >= 10
    assert all(one.__setattr__ is not object.__setattr__ and "__slots__" in vars(one) for one in found)


def test_arrivals_of_a_named_queue_are_the_sum_of_its_counters() -> None:
    numbers = dict.fromkeys((one.name for one in fields(NamedQueueSnapshot)), 1) | {"rejected": {"a": 2, "b": 3}}
    queue = NamedQueueSnapshot(**numbers)  # type: ignore[arg-type]

    assert (queue.rejections, queue.arrived) == (5, 11)
