"""Whatever KEP-1040's form says, ``apf/v1`` says too: what is converted means the same."""

import json

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.config import load_text
from apf_middleware.config.emit import emit
from apf_middleware.config.load import read_source

names = st.sampled_from(["a", "b", "low", "top", "workload-low", "system-top", "exempt-backstop", "x.y"])
words = st.sampled_from(["alice", "system:masters", "*", "", "grüße", "a b", "0x10", "yes"])
fields = st.sampled_from(["user", "groups", "namespace", "resource", "verb", "apiGroup", "path", "name"])
queuings = st.one_of(
    st.fixed_dictionaries({"queues": st.just(1), "queueLengthLimit": st.integers(1, 99)}),
    st.fixed_dictionaries(
        {"queues": st.integers(8, 64), "handSize": st.integers(1, 8), "queueLengthLimit": st.integers(1, 99)}
    ),
)
levels = st.one_of(
    st.just({"exempt": True}),
    st.builds(
        lambda queuing, shares, catch_all: {**queuing, "assuredConcurrencyShares": shares, "catchAll": catch_all},
        queuings,
        st.integers(-50, 500),  # negative shares are errors
        st.booleans(),
    ),
)
tests = st.builds(
    lambda name, field, operand: {name: {"field": field, **operand(name)}},
    st.sampled_from(["equals", "notEquals", "inSet", "notInSet", "superSet", "notSuperSet", "patternMatch"]),
    fields,
    words.map(
        lambda word: (
            lambda name: (
                {"value": word}
                if name.lower().endswith("equals")
                else {"pattern": "a.*"}
                if name == "patternMatch"
                else {"set": [word, "z"]}
            )
        )
    ),
)
schemas = st.fixed_dictionaries(
    {
        "requestPriority": names.map(lambda name: {"name": name}),
        "match": st.lists(st.lists(tests, max_size=3).map(lambda several: {"and": several}) | tests, max_size=3),
    },
    optional={
        "matchingPriority": st.integers(2, 10_000),
        "flowDistinguisher": st.sampled_from(
            [{"source": "user"}, {"source": "namespace"}, {"source": "user", "transform": "(a).*"}]
        ),
    },
)
documents = st.builds(
    lambda priorities, flows: [
        *({"kind": "RequestPriority", "meta": {"name": name}, "spec": spec} for name, spec in priorities.items()),
        *({"kind": "FlowSchema", "meta": {"name": name}, "spec": spec} for name, spec in flows),
    ],
    st.dictionaries(names, levels, min_size=1, max_size=4),
    st.lists(st.tuples(names, schemas), max_size=5),
)


@given(documents)
def test_a_converted_configuration_classifies_equally(several: list[dict[str, object]]) -> None:
    text = "\n---\n".join(json.dumps(one, ensure_ascii=False) for one in several)
    reading = read_source(text)
    if reading.configuration is None:
        assert reading.errors
        return

    assert load_text(emit(reading.configuration)) == reading.configuration
