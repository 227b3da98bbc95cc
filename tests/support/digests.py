"""Requests to estimate."""

from collections.abc import Mapping

from apf_middleware.classification import Classification, Identity, RequestDigest, Resource
from apf_middleware.fairqueuing import Work

__all__ = ["SOMEWHERE", "asking", "at_once", "writing"]

SOMEWHERE = Classification("schema", "level", "flow", 1)


def asking(
    path: str = "/",
    *,
    method: str = "GET",
    user: str = "alice",
    groups: tuple[str, ...] = (),
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    client: str = "",
) -> RequestDigest:
    """Return a request that is about no resource."""
    return RequestDigest(
        Identity(user, groups),
        method.lower(),
        path,
        method,
        headers=headers or {},
        query=query or {},
        client_address=client,
    )


def writing(verb: str, resource: Resource, query: Mapping[str, str] | None = None) -> RequestDigest:
    """Return a request about a resource."""
    return RequestDigest(Identity("alice"), verb, "/", resource=resource, query=query or {})


def at_once(answer: object) -> Work:
    """Return the work of an estimate without anything to await."""
    assert isinstance(answer, Work)
    return answer
