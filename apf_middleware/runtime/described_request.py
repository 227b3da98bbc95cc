"""How a configuration classifies a request that is only described: which schema takes it, and why none before it.

The command line and the admin answer with the same facts.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from apf_middleware.classification import Explanation, Identity, RequestDigest
from apf_middleware.classification.digest import identity_of
from apf_middleware.classification.kubernetes import is_served_without_seats
from apf_middleware.classification.matching import SERVICE_ACCOUNT
from apf_middleware.classification.paths import visible_path
from apf_middleware.classification.query import QueryParameters
from apf_middleware.config import Configuration
from apf_middleware.config.build import (
    derive_classifier,
    derive_criticality,
    derive_limits,
    derive_resolver,
    derive_settings,
)
from apf_middleware.config.gating import Gating
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.queues import QueueNaming, UnknownQueue

__all__ = ["DescribedRequest", "explain_request"]

_SERVICE_ACCOUNT: Final = re.compile(rf"{SERVICE_ACCOUNT}([^:]+):[^:]+")
_SERVICE_ACCOUNTS: Final = "system:serviceaccounts"


@dataclass(frozen=True, slots=True)
class DescribedRequest:
    """A request that is described and not sent. Without a ``user`` it is anonymous."""

    method: str
    url: str
    user: str = ""
    groups: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    client: str = ""

    @property
    def identity(self) -> Identity:
        """The user as a cluster's authentication makes it, with the groups that follow from the name."""
        account = _SERVICE_ACCOUNT.fullmatch(self.user)
        implied = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{account[1]}") if account else ()
        return identity_of(self.user, (*self.groups, *implied))


def explain_request(configuration: Configuration, request: DescribedRequest) -> dict[str, object]:
    """Return which schema takes a request, why those before it don't, and its level, flow, queues and seats.

    Raises:
        InvalidValueError: the URL is none, or the client's address isn't one.
    """
    digest = _digest(configuration, request)
    if configuration.server.resolver == "kubernetes" and is_served_without_seats(digest):
        return _about(digest) | {"served": "at once, without a seat, like all long-running requests except watches"}
    return _explain(configuration, digest, derive_classifier(configuration).explain(digest))


def _digest(configuration: Configuration, request: DescribedRequest) -> RequestDigest:
    host, path, query_text = _parts(request.url)
    headers = {name.lower(): value for name, value in request.headers.items()}
    query = QueryParameters.of_text(query_text)
    method = request.method.upper()
    resolution = derive_resolver(configuration)(method, path, query)
    digest = RequestDigest(
        identity=request.identity,
        verb=resolution.verb,
        path=path,
        method=method,
        resource=resolution.resource,
        host=host or headers.get("host", ""),
        headers=headers,
        query=query,
        path_parameters=resolution.path_parameters,
        client_address=_address(request.client),
    )
    digest.criticality = derive_criticality(configuration)(digest)
    return digest


def _parts(url: str) -> tuple[str | None, str, str]:
    """Return the host, the path as a server tells the app of it, and the query."""
    if url.startswith("/"):  # also //, which would begin a host elsewhere
        target, _, _ = url.partition("#")
        host, (path, _, query) = None, target.partition("?")
    else:
        try:
            parts = urlsplit(url)
            host, path, query = parts.hostname, parts.path or "/", parts.query
        except ValueError as error:
            raise InvalidValueError("url", url, f"it is no URL: {error}") from None
        if not path.startswith("/"):
            raise InvalidValueError("url", url, "its path doesn't begin with a slash")
    return host, visible_path(unquote(path)), query


def _address(client: str) -> str:
    """Return the client's address, which may be empty, as that of a Unix socket is."""
    try:
        return client and str(ipaddress.ip_address(client))
    except ValueError:
        raise InvalidValueError(
            "client", client, "it is no IP address", "Write it like 192.0.2.7 or 2001:db8::7"
        ) from None


def _explain(configuration: Configuration, digest: RequestDigest, explanation: Explanation) -> dict[str, object]:
    found = explanation.classification
    placed = QueueNaming(configuration, lambda _: False).place(None, digest, found)  # no proxy is involved here
    if isinstance(placed, UnknownQueue):
        return {"rejected": f"{placed.status}, {placed.reason}", "schema": found.schema}
    found = placed
    level = configuration.levels[found.level]
    limits = derive_limits(configuration)[found.level]
    settings = derive_settings(level, limits)
    # borrowing can't exceed the server's seats
    most = min(limits.max, max(limits.nominal, configuration.server.largest_total))
    dealer = None if settings.exact else settings.dealer()
    return _about(digest) | {
        "schema": found.schema,
        "level": found.level,
        "flow": found.flow,
        "weight": found.weight,
        "hand": list(dealer.deal(found.entropy)) if dealer else [],
        "own_queue": settings.exact > 0,
        "seats": {"nominal": limits.nominal, "min": limits.min, "max": None if level.exempt else most},
        "gates": list(Gating(configuration).names(digest, found)),
        "exempt": level.exempt,
        "fallback": explanation.fallback,
        "passed_over": [{"schema": name, "why": why} for name, why in explanation.passed_over],
    }


def _about(digest: RequestDigest) -> dict[str, object]:
    resource = digest.resource
    return {
        "user": digest.identity.name,
        "groups": list(digest.identity.groups),
        "verb": digest.verb,
        "resource": "/".join(filter(None, (resource.resource, resource.subresource))) if resource else None,
        "namespace": resource.namespace if resource else None,
    }
