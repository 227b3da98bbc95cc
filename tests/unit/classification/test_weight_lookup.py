"""The weights of names and requests."""

from typing import Any

import pytest

from apf_middleware.classification import Distinguisher, FlowSchema, FlowWeights, Identity, RequestDigest, Source
from apf_middleware.classification.weight_lookup import WeightLookup, compile_flow_weight, compile_request_weight
from apf_middleware.exceptions import InvalidValueError

LOOKUP = WeightLookup((("t*", 2), ("tenant-7", 3), ("tenant-*", 5), ("tenant-7*", 7)))


def digest(*groups: str, path: str = "/") -> RequestDigest:
    return RequestDigest(Identity("ann", groups), "get", path)


def schema(**how: Any) -> FlowSchema:  # noqa: ANN401
    return FlowSchema("shop", "l", distinguisher=Distinguisher(Source.USER), weights=FlowWeights(**how))


@pytest.mark.parametrize(
    ("name", "weight"),
    [("tenant-7", 3), ("tenant-77", 7), ("tenant-", 5), ("tenant-8", 5), ("tenant", 2), ("a", None), ("", None)],
)
def test_exact_names_and_longer_prefixes_come_first(name: str, weight: float | None) -> None:
    assert LOOKUP.find(name) == weight


def test_a_star_alone_is_a_prefix_of_every_name() -> None:
    lookup = WeightLookup((("*", 2), ("", 3)))

    assert (lookup.find("a"), lookup.find("")) == (2, 3)


def test_the_most_of_several_names_does_not_depend_on_their_order() -> None:
    assert LOOKUP.most(("a", "tenant-7", "tenant-8", "t")) == 5
    assert LOOKUP.most(("t", "tenant-8", "tenant-7", "a")) == 5
    assert LOOKUP.most(("a",)) is None
    assert LOOKUP.most(()) is None


def test_flows_without_an_entry_have_the_weight_of_their_schema() -> None:
    weigh = compile_flow_weight(schema(default=2, flows=(("gold", 4),)))

    assert weigh is not None
    assert (weigh("gold"), weigh("silver")) == (4, 2)


def test_schemas_without_weights_have_nothing_to_look_up() -> None:
    assert compile_flow_weight(FlowSchema("shop", "l")) is None
    assert compile_flow_weight(schema(groups=(("a", 2),))) is None
    assert compile_request_weight(FlowSchema("shop", "l")) is None
    assert compile_request_weight(schema(default=2, flows=(("gold", 4),))) is None


def test_a_caller_has_the_highest_weight_of_its_groups() -> None:
    weigh = compile_request_weight(schema(groups=(("plan:gold", 4), ("plan:*", 2))))

    assert weigh is not None
    assert weigh(digest("plan:iron", "plan:gold")) == 4
    assert weigh(digest("plan:gold", "plan:iron")) == 4
    assert weigh(digest("plan:iron")) == 2
    assert weigh(digest("dev")) is None


def test_a_function_comes_before_the_groups_unless_it_returns_none() -> None:
    weigh = compile_request_weight(
        schema(groups=(("gold", 4),), function=lambda digest: 9 if digest.path == "/vip" else None)
    )

    assert weigh is not None
    assert weigh(digest("gold", path="/vip")) == 9
    assert weigh(digest("gold")) == 4
    assert weigh(digest()) is None


@pytest.mark.parametrize("result", ["4", 0, -1, 2000, True, float("nan"), float("inf")])
def test_a_wrong_result_of_a_function_is_named(result: object) -> None:
    weigh = compile_request_weight(schema(function=lambda _: result))

    assert weigh is not None
    with pytest.raises(InvalidValueError) as caught:
        weigh(digest())

    assert str(caught.value) == (
        f"weight of the schema 'shop' by its function is {result!r}, but it must be a number from 0.01 to 1000"
    )
