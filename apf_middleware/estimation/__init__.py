"""Estimates of work: from a request's digest and classification to the seats that it takes. Pure.

There is no clock and no I/O here: estimates are based on tables (objects, watches, learned costs), which other packages
fill.
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
from apf_middleware.estimation.declared import MOST_SEATS, Answer, Computed, Constant, Declared, Trust
from apf_middleware.estimation.estimation import Choice, Estimate, Estimation, RouteEstimator
from apf_middleware.estimation.kubernetes import KubernetesEstimator, ListSettings, MutatingSettings, Watchers
from apf_middleware.estimation.learned import Learned, LearnedCosts, LearnedCostsSnapshot, RouteCosts, route_key
from apf_middleware.estimation.objects import UNCERTAIN, Inventory, ObjectCounts, ObjectCountsSnapshot, ObjectStats
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
    "Computed",
    "Constant",
    "Declared",
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
