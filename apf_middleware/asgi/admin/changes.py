"""What can be changed through the admin: the configuration can be read again.

Credentials that a browser adds by itself (a session, a certificate, what a proxy has signed in) come with requests that
some other site's page makes, too. So a change that such a page asks for is refused: a browser says in
``Sec-Fetch-Site``, or at least in ``Origin``, who has made a request. Whoever sends neither is no browser.
"""

import json
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.types import Scope

from apf_middleware.asgi.admin.answers import JSON, written, written_problem
from apf_middleware.asgi.admin.words import printable
from apf_middleware.asgi.request import HeaderView
from apf_middleware.config.problems import Severity
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime import tell

if TYPE_CHECKING:
    from apf_middleware.asgi.admin.notes import View
    from apf_middleware.asgi.responses import Answer
    from apf_middleware.classification import Identity

__all__ = ["reload"]


async def reload(view: "View", scope: Scope, identity: "Identity") -> "Answer":
    """Read the configuration again because ``identity``, who may, has asked for it; it is logged who that was."""
    client = scope.get("client")
    who = {"user": printable(identity.name), "client": client[0] if client else None}
    if _is_from_elsewhere(HeaderView(scope)):
        tell(logging.WARNING, "apf.reload-refused", **who, reason="cross-site")
        return written_problem(403, "cross-site", "Forbidden", "A page of another site has asked for this.")
    tell(logging.INFO, "apf.reload-asked", **who)
    try:
        is_in_force = await view.reload()
    except InvalidValueError as error:
        return written_problem(409, "nothing-to-read", "Conflict", f"Nothing can be read again: {error.rule}.")
    wanted = Severity.WARNING if is_in_force else Severity.ERROR
    configuration = view.configuration
    told = {
        "reloaded": is_in_force,
        "seats": configuration.server.seats,
        "levels": len(configuration.levels),
        "schemas": len(configuration.schemas),
        "problems": [problem.as_dict() for problem in view.problems if problem.severity is wanted],
    }
    status = HTTPStatus.OK if is_in_force else HTTPStatus.UNPROCESSABLE_ENTITY
    return written(status, JSON, json.dumps(told).encode())


def _is_from_elsewhere(headers: HeaderView) -> bool:
    """Whether a browser has made this request for a page of another site."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2].lower() != headers.get("host", "?").lower()
