"""Classification: from a request's digest to its schema, level and flow. Pure.

The `Classifier` caches its decisions (see `decision_keys`). The middleware caches whole requests in front of it, in
`asgi.request_cache`.
"""

from apf_middleware.classification.classifier import Classifier, Explanation
from apf_middleware.classification.digest import ANONYMOUS, Identity, RequestDigest, Resolution, Resource
from apf_middleware.classification.flow_weights import FlowWeights
from apf_middleware.classification.kubernetes import resolve_kubernetes
from apf_middleware.classification.matching import accepts, why_not
from apf_middleware.classification.routes import RouteTable
from apf_middleware.classification.rules import (
    AnySubject,
    AtomicTest,
    Conjunction,
    Field,
    GroupSubject,
    HttpRule,
    NonResourceRule,
    Operator,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    UserSubject,
    ValueMatch,
)
from apf_middleware.classification.schema import Classification, Distinguisher, FlowSchema, Source

__all__ = [
    "ANONYMOUS",
    "AnySubject",
    "AtomicTest",
    "Classification",
    "Classifier",
    "Conjunction",
    "Distinguisher",
    "Explanation",
    "Field",
    "FlowSchema",
    "FlowWeights",
    "GroupSubject",
    "HttpRule",
    "Identity",
    "NonResourceRule",
    "Operator",
    "RequestDigest",
    "Resolution",
    "Resource",
    "ResourceRule",
    "RouteTable",
    "Rule",
    "ServiceAccountSubject",
    "Source",
    "UserSubject",
    "ValueMatch",
    "accepts",
    "resolve_kubernetes",
    "why_not",
]
