"""Work estimates against golden/pure/list_work and mutating_work, one case at a time.

They go through the estimator that routes by verb, alone and within `Estimation` with the level's cap, so that both
ways to cut are compared.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from apf_middleware.classification import ANONYMOUS, Classification, RequestDigest, Resource
from apf_middleware.estimation import (
    UNCERTAIN,
    Estimate,
    Estimation,
    KubernetesEstimator,
    ListSettings,
    MutatingSettings,
    ObjectStats,
)
from apf_middleware.fairqueuing import Work

__all__ = ["replay_list_work", "replay_mutating_work"]

Case = Mapping[str, Any]

_SOMEWHERE = Classification("schema", "level", "", 0)


def replay_list_work(case: Case) -> str | None:
    """Compare the seats of a list or a watch."""
    usual = ListSettings(
        by_size=case["size_based"],
        watch_list=case["watch_list"],
        consistent_reads=case["consistent_list_from_cache"],
        least_seats=case["min_seats"],
    )
    known = ObjectStats(case["object_count"], case["average_object_size"])
    stats = {"": known, "not found": None, "stale": UNCERTAIN, "other": UNCERTAIN}[case["count_error"]]
    query: dict[str, str] = {}
    for name, value in parse_qsl(case["query"], keep_blank_values=True):
        query.setdefault(name, value)
    resource = Resource("pods", namespace="ns", name=case["name"])
    digest = RequestDigest(ANONYMOUS, case["verb"], "/", resource=resource, query=query)

    def estimator(most_seats: int) -> KubernetesEstimator:
        return KubernetesEstimator(lambda _: stats, _nobody, listing=replace(usual, most_seats=most_seats))

    return _differs(case, "maximum_list_seats_limit", usual.limit, estimator, digest)


def replay_mutating_work(case: Case) -> str | None:
    """Compare the seats of a write, initial and final."""
    usual = MutatingSettings(
        enabled=case["enabled"],
        watches_per_seat=case["watches_per_seat"],
        event_ns=case["event_additional_duration_ns"],
    )
    resource = Resource(case["resource"], subresource=case["subresource"], namespace="ns", name="x")
    digest = RequestDigest(ANONYMOUS, case["verb"], "/", resource=resource)

    def estimator(most_seats: int) -> KubernetesEstimator:
        mutating = replace(usual, most_seats=most_seats)
        return KubernetesEstimator(lambda _: None, lambda *_: case["watch_count"], mutating=mutating)

    return _differs(case, "maximum_mutating_seats_limit", usual.most_seats, estimator, digest)


def _nobody(*_: object) -> int:
    return 0


def _differs(
    case: Case, limit_name: str, limit: int, estimator: Callable[[int], KubernetesEstimator], digest: RequestDigest
) -> str | None:
    """Compare the estimator alone, with the level's cap as its own; then, as on the server, limited by the level."""
    cap = case["max_seats"]
    expected = [case[key] for key in (limit_name, "initial_seats", "final_seats", "additional_latency_ns")]
    got = [limit, *_numbers(estimator(min(cap or limit, limit))(digest, _SOMEWHERE))]
    # Where upstream's minimum exceeds the cap, either can win there; here the cap does.
    if got == expected and not 0 < cap < case.get("min_seats", 1):
        estimate = Estimation(estimator(limit), caps={"level": cap}).estimate(digest, _SOMEWHERE)
        got = [limit, *_numbers(estimate.work)] if isinstance(estimate, Estimate) else []
    return None if expected == got else f"expected {expected}, got {got}"


def _numbers(work: Work) -> list[int]:
    return [work.seats, work.final_seats, work.linger_ns]
