"""How much work? From a request's digest and classification to the seats that it takes. Pure.

No clock, no I/O: what an estimate stands on (objects, watches, what was learned) is kept in tables that others fill.
"""

from apf_middleware.estimation.base import (
    ANYTHING,
    ONE_SEAT,
    STEADY,
    AnyEstimator,
    Dependence,
    Estimator,
    cut,
    dependence_of,
    seat_cap,
)
from apf_middleware.estimation.estimation import Choice, Estimate, Estimation, RouteEstimator
from apf_middleware.estimation.kubernetes import KubernetesEstimator, ListSettings, MutatingSettings, Watchers
from apf_middleware.estimation.learned import Learned, LearnedCosts, LearnedCostsSnapshot, RouteCosts, route_key
from apf_middleware.estimation.objects import UNCERTAIN, Inventory, ObjectCounts, ObjectCountsSnapshot, ObjectStats
from apf_middleware.estimation.told import MOST_SEATS, Answer, Claimed, ClaimedSnapshot, Computed, Constant, Trust
from apf_middleware.estimation.watches import Watch, WatchKey, WatchTracker, WatchTrackerSnapshot, watch_of

__all__ = [
    "ANYTHING",
    "MOST_SEATS",
    "ONE_SEAT",
    "STEADY",
    "UNCERTAIN",
    "Answer",
    "AnyEstimator",
    "Choice",
    "Claimed",
    "ClaimedSnapshot",
    "Computed",
    "Constant",
    "Dependence",
    "Estimate",
    "Estimation",
    "Estimator",
    "Inventory",
    "KubernetesEstimator",
    "Learned",
    "LearnedCosts",
    "LearnedCostsSnapshot",
    "ListSettings",
    "MutatingSettings",
    "ObjectCounts",
    "ObjectCountsSnapshot",
    "ObjectStats",
    "RouteCosts",
    "RouteEstimator",
    "Trust",
    "Watch",
    "WatchKey",
    "WatchTracker",
    "WatchTrackerSnapshot",
    "Watchers",
    "cut",
    "dependence_of",
    "route_key",
    "seat_cap",
    "watch_of",
]
