"""How the configuration in force classifies a request that is described in the query.

This takes no seats, reads no request and changes nothing, so members of `groups` may ask.
"""

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from apf_middleware.asgi.admin.observation import View
from apf_middleware.asgi.admin.protocol import JSON, AdminError, AdminRequest, Handler, answer_dump
from apf_middleware.asgi.responses import Answer
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime.described_request import DescribedRequest, explain_request

__all__ = ["ExplainResource"]

_MOST_PARAMETERS: Final = 100
_NAMES: Final = ("method", "url", "user", "group", "header", "client")


class ExplainResource:
    """Explanations by the configuration of ``view``."""

    def __init__(self, view: View) -> None:
        self._view = view

    def find(self, steps: list[str]) -> tuple[str, Mapping[str, Handler]] | None:
        """Return the handlers by method."""
        return None if steps else ("", {"GET": self._get})

    async def _get(self, request: AdminRequest) -> Answer:
        described = _described(bytes(request.scope.get("query_string") or b""))
        try:
            facts = explain_request(self._view.configuration, described)
        except InvalidValueError as error:
            raise _bad_request(f"{error}.") from None
        return answer_dump(json.dumps(facts).encode() + b"\n", JSON)


def _described(query: bytes) -> DescribedRequest:
    try:
        pairs = parse_qsl(query.decode(), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        raise _bad_request(f"The query can't be read: {error}.") from None
    given: dict[str, list[str]] = {name: [] for name in _NAMES}
    for name, value in pairs:
        if name not in given:
            raise _bad_request(f"There is no parameter {name!r}; there are {', '.join(_NAMES)}.")
        given[name].append(value)
    first = {name: values[0] for name, values in given.items() if values}
    headers = dict(reversed([_header(one) for one in given["header"]]))  # the first one counts
    return DescribedRequest(
        first.get("method") or "GET",
        first.get("url") or "/",
        first.get("user", ""),
        tuple(given["group"]),
        headers,
        first.get("client", ""),
    )


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise _bad_request(f"The header {text!r} must be written NAME:VALUE.")
    return name.strip().lower(), value.strip()


def _bad_request(detail: str) -> AdminError:
    return AdminError(400, "bad-description", detail)
