"""Who is this? From a request's digest to its schema, level and flow. Pure, and fast."""

from apf_middleware.classification.digest import ANONYMOUS, Identity, RequestDigest, Resource
from apf_middleware.classification.schema import Classification, Distinguisher, FlowSchema, Source

__all__ = [
    "ANONYMOUS",
    "Classification",
    "Distinguisher",
    "FlowSchema",
    "Identity",
    "RequestDigest",
    "Resource",
    "Source",
]
