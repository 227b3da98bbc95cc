"""Weights as settings: what is written for them, and names that can't match."""

from apf_middleware.classification import FlowWeights
from apf_middleware.config.flow_weights import Weight, build_weights, given_weights, weight_values, weights_violations
from apf_middleware.config.settings import adapter_of


def test_whole_numbers_are_written_without_a_fraction() -> None:
    written = [adapter_of(Weight).dump_python(weight, mode="json") for weight in (4.0, 0.5, 1000)]

    assert [str(one) for one in written] == ["4", "0.5", "1000"]


def test_equal_weights_are_none() -> None:
    assert build_weights(1, {}, {}, None) is None
    assert build_weights(2, {}, {}, None) == FlowWeights(2)


def test_the_values_build_the_same_weights() -> None:
    weights = FlowWeights(2, (("*", 3), ("gold", 4)), (("plan:gold", 8),), hash)
    values = weight_values(weights)

    assert list(values) == ["weight", "weights", "group_weights", "weight_function"]
    assert build_weights(2, {"gold": 4, "*": 3}, {"plan:gold": 8}, hash) == weights
    assert list(values.values()) == [2, {"gold": 4, "*": 3}, {"plan:gold": 8}, hash]
    assert list(weight_values(None).values()) == [1, {}, {}, None]


def test_messages_show_whole_numbers_without_a_fraction() -> None:
    assert str(given_weights(FlowWeights(2.0, (("gold", 4.0),)))) == "{'weight': 2, 'weights': {'gold': 4}}"


def test_names_that_can_not_match_are_violations() -> None:
    names = {"*": 1.0, "a*": 1.0, "a*b": 1.0, "*a": 1.0, "": 1.0}

    assert [one.path for one in weights_violations("weights", names)] == [("weights", "a*b"), ("weights", "*a")]
    [last] = list(weights_violations("weights", names, nameless="it must have a name"))[2:]
    assert (last.path, last.value, last.rule) == (("weights",), names, "it must have a name")


def test_only_keys_that_differ_from_their_defaults_are_given() -> None:
    assert given_weights(None) == given_weights(FlowWeights()) == {}
    assert given_weights(FlowWeights(flows=(("gold", 4),))) == {"weights": {"gold": 4}}
    assert given_weights(FlowWeights(2, groups=(("dev", 3),), function=hash)) == {
        "weight": 2,
        "groupWeights": {"dev": 3},
        "weightFunction": "builtins:hash",
    }


def test_a_function_without_a_name_is_shown_itself() -> None:
    functions = [lambda digest: len(digest.path)]

    assert given_weights(FlowWeights(function=functions[0])) == {"weightFunction": functions[0]}
