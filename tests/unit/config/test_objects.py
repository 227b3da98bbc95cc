"""A configuration, and what is made of it."""

from pathlib import Path

from apf_middleware.config import load, load_text

EXAMPLE = Path(__file__).parent / "data" / "kep-example.yaml"


def test_a_classifier_finds_in_it_what_it_needs() -> None:
    web, kep = load(), load(EXAMPLE)

    assert (web.fallback.name, web.masters_fallback) == ("catch-all", None)
    assert kep.fallback.name == "non-top-backstop"
    assert kep.masters_fallback is not None
    assert kep.masters_fallback.level == "system-top"
    assert web.flowless_levels == {"exempt", "catch-all"}
    assert kep.flowless_levels == {"system-top", "system-low"}


def test_flows_matter_where_only_the_flows_beyond_the_exact_queues_share_one() -> None:
    level = "apiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {name: shop}\nspec: {queuing: QUEUING}\n"

    assert "shop" not in load_text(level.replace("QUEUING", "{queues: exact, sharedQueues: 1}")).flowless_levels
    assert "shop" in load_text(level.replace("QUEUING", "{queues: 1, handSize: 1}")).flowless_levels


def test_a_dangling_backstop_is_none() -> None:
    text = "kind: FlowSchema\nmeta: {name: non-top-backstop}\nspec: {requestPriority: {name: no}, match: [and: []]}\n"

    assert load_text(text).fallback.level == "workload-low"
