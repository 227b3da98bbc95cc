"""How a document shows its format: by its apiVersion and its kind."""

from typing import Final

__all__ = [
    "APF_KINDS",
    "APF_VERSION",
    "ASSURED",
    "KEP_KINDS",
    "KUBERNETES_GROUP",
    "KUBERNETES_KINDS",
    "KUBERNETES_VERSIONS",
    "ZERO_SHARES",
]

APF_VERSION: Final = "apf/v1"
APF_KINDS: Final[tuple[str, ...]] = ("FlowSchema", "PriorityLevel", "Server")

KEP_KINDS: Final[tuple[str, ...]] = ("FlowSchema", "RequestPriority")
"""Documents of these kinds have no apiVersion."""

KUBERNETES_GROUP: Final = "flowcontrol.apiserver.k8s.io"
KUBERNETES_KINDS: Final[tuple[str, ...]] = ("FlowSchema", "PriorityLevelConfiguration")
KUBERNETES_VERSIONS: Final[tuple[str, ...]] = tuple(
    f"{KUBERNETES_GROUP}/{version}" for version in ("v1", "v1beta3", "v1beta2", "v1beta1", "v1alpha1")
)

ASSURED: Final = frozenset({"v1alpha1", "v1beta1", "v1beta2"})
"""Kubernetes' versions that call shares assuredConcurrencyShares."""

ZERO_SHARES: Final = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
"""With this annotation a v1beta3 level's zero shares mean zero."""
