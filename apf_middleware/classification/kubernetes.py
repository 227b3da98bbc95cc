"""Kubernetes' paths, such as ``/api/v1/namespaces/x/pods/y/log``, to verb and resource, as upstream reads them.

``/api/VERSION/…`` is the core group, ``/apis/GROUP/VERSION/…`` are the others, followed by an optional
``namespaces/NAMESPACE``, and by resource, name and subresource. Any other path, such as the API's discovery paths,
which end before a resource, has no resource, and its verb is the method in lower case.
"""

import re
from collections.abc import Mapping

from apf_middleware.classification.digest import NO_VALUES, VERB_OF_METHOD, RequestDigest, Resolution, Resource

__all__ = ["is_served_without_seats", "resolve_kubernetes"]

_PREFIXED_VERBS = frozenset({"proxy", "watch"})  # deprecated: the verb stands in the path, before the resource
_OF_NAMESPACES = frozenset({"status", "finalize"})  # subresources of a namespace, not resources in it

_LONG_SUBRESOURCES = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_PROFILES = "/debug/pprof/"

_LONGEST_SELECTOR = 4096

_TERM = re.compile(r"((?:(?!!=)[^=])*)(!=|==|=)((?:[^\\=]|\\[\\,=])*)")
_COMMA = re.compile(r"(?:[^\\,]|\\.)+")


def resolve_kubernetes(method: str, path: str, query: Mapping[str, str] = NO_VALUES) -> Resolution:
    """Return verb and resource of a request to a Kubernetes-like API."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, _, *_]:
            api_group, rest = "", parts[2:]
        case ["apis", api_group, version, _, *_]:
            rest = parts[3:]
        case _:
            return Resolution(method.lower())
    verb = VERB_OF_METHOD.get(method.upper(), "")
    if rest[0] in _PREFIXED_VERBS:
        if len(rest) < 2:
            return Resolution(method.lower())
        verb, rest = rest[0], rest[1:]
    namespace, rest = _split_namespace(rest)
    name = rest[1] if len(rest) > 1 else ""
    # A proxied path belongs to the server behind the proxy.
    subresource = rest[2] if len(rest) > 2 and verb != "proxy" else ""
    if not name:
        verb, name = _collective(verb, query)
    return Resolution(verb, Resource(rest[0], api_group, version, subresource, namespace, name))


def is_served_without_seats(digest: RequestDigest) -> bool:
    """Return whether Kubernetes serves this request outside of priority and fairness.

    Those are its long-running requests (profiles, proxies, and ``exec``, ``log`` and the like of pods), except watches,
    which take seats until they have begun.
    """
    if digest.resource is None:
        return digest.path.startswith(_PROFILES)
    return digest.verb == "proxy" or (digest.verb != "watch" and digest.resource.subresource in _LONG_SUBRESOURCES)


def _split_namespace(parts: list[str]) -> tuple[str, list[str]]:
    """Return the namespace, and the parts from the resource on; a namespace itself is also a resource."""
    match parts:
        case ["namespaces", namespace, resource, *_] if resource not in _OF_NAMESPACES:
            return namespace, parts[2:]
        case ["namespaces", namespace, *_]:
            return namespace, parts
    return "", parts


def _collective(verb: str, query: Mapping[str, str]) -> tuple[str, str]:
    """Return the verb of a request without a name, and the one name that its field selector may ask for."""
    if verb == "delete":
        return "deletecollection", ""
    if verb != "get":
        return verb, ""
    watches = query.get("watch", "false").lower() not in {"false", "0"}
    return "watch" if watches else "list", _selected_name(query.get("fieldSelector", ""))


def _selected_name(selector: str) -> str:
    if len(selector) > _LONGEST_SELECTOR or "metadata.name" not in selector:  # thousands of terms take milliseconds
        return ""
    terms = [_TERM.fullmatch(term) for term in _COMMA.findall(selector)]
    if None in terms:  # as upstream, which then ignores the selector
        return ""
    for term in terms:
        if term is not None and term[1] == "metadata.name" and term[2] != "!=":
            name = re.sub(r"\\(.)", r"\1", term[3])
            return "" if name in {".", ".."} or set(name) & set("/%") else name
    return ""
