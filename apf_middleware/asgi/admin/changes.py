"""What can be changed through the admin besides queues: the configuration can be read again."""

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from apf_middleware.asgi.admin.answers import Trouble, shown_json
from apf_middleware.asgi.admin.words import printable
from apf_middleware.config.problems import Severity
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.runtime import log_event

if TYPE_CHECKING:
    from apf_middleware.asgi.admin.desk import Ask
    from apf_middleware.asgi.admin.notes import View
    from apf_middleware.asgi.responses import Answer

__all__ = ["reload"]


async def reload(view: "View", ask: "Ask") -> "Answer":
    """Read the configuration again because somebody who may has asked for it; it is logged who that was."""
    client = ask.scope.get("client")
    log_event(
        logging.INFO, "apf.reload-asked", user=printable(ask.who.name), client=client[0] if client else ask.who.via
    )
    try:
        is_in_force = await view.reload()
    except InvalidValueError as error:
        detail = f"Nothing can be read again: {error.rule}."
        raise Trouble(409, "nothing-to-read", "Conflict", detail) from None
    wanted = Severity.WARNING if is_in_force else Severity.ERROR
    configuration = view.configuration
    told = {
        "reloaded": is_in_force,
        "seats": configuration.server.seats,
        "levels": len(configuration.levels),
        "schemas": len(configuration.schemas),
        "problems": [problem.as_dict() for problem in view.problems if problem.severity is wanted],
    }
    return shown_json(told, status=HTTPStatus.OK if is_in_force else HTTPStatus.UNPROCESSABLE_ENTITY)
