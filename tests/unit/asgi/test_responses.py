"""What responses to clients contain, and what they must not contain."""

import json
from random import Random
from typing import Literal

import pytest

from apf_middleware.asgi.resolver import ResponseHeaders
from apf_middleware.asgi.responses import answer_rejected, answer_unauthenticated
from apf_middleware.classification import Classification
from apf_middleware.config import load
from apf_middleware.config.responses import ResponseSettings
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.runtime import Admission, Controller

PLACE = Classification("anonymous-clients", "anonymous", "10.0.0.0/24", 7)


def rejected(reason: Reason) -> Admission:
    controller = Controller(load(), now=lambda: 0)
    admission = Admission(controller.destination(PLACE, Work()))
    controller.close()
    controller.arrive(0, admission)
    admission.reason = reason
    return admission


def answer(
    settings: ResponseSettings, reason: Reason = Reason.TIME_OUT
) -> tuple[int, dict[str, str], dict[str, object]]:
    found = answer_rejected(rejected(reason), ResponseHeaders(settings), 0, Random(1))
    return found.status, {name.decode(): value.decode() for name, value in found.headers}, json.loads(found.body)


def test_a_rejection_has_the_headers_that_a_client_needs() -> None:
    status, headers, problem = answer(ResponseSettings())

    assert status == problem["status"] == 429
    assert headers["content-type"] == "application/problem+json"
    assert headers["cache-control"] == "no-store"
    assert headers["retry-after"] == "1"
    assert headers["x-apf-flow-schema"] == problem["schema"] == "anonymous-clients"
    assert headers["x-apf-priority-level"] == problem["level"] == "anonymous"
    assert problem["reason"] == "time-out"
    assert problem["waited"] == 0
    assert "10.0.0.0" not in json.dumps(problem), "whose flow it is, is nobody's business"


@pytest.mark.parametrize("dialect", ["apf", "kubernetes"])
def test_names_can_be_hidden(dialect: Literal["apf", "kubernetes"]) -> None:
    settings = ResponseSettings(dialect=dialect, names="hidden")
    _, headers, problem = answer(settings)

    assert "anonymous" not in json.dumps([headers, problem])
    prefix = "x-apf" if dialect == "apf" else "x-kubernetes-pf"
    assert len([name for name in headers if name.startswith(prefix)]) == 2


def test_a_closing_server_answers_503_for_any_configured_status() -> None:
    status, headers, _ = answer(ResponseSettings(), Reason.QUEUE_CLOSED)

    assert status == 503
    assert headers["connection"] == "close"


def test_the_status_of_rejections_can_be_chosen() -> None:
    assert answer(ResponseSettings(status=503), Reason.CONCURRENCY_LIMIT)[0] == 503


def test_bad_credentials_are_answered_with_the_challenge() -> None:
    found = answer_unauthenticated('Bearer realm="apf", error="invalid_token"', "expired")

    assert found.status == 401
    assert dict(found.headers)[b"www-authenticate"] == b'Bearer realm="apf", error="invalid_token"'
    assert json.loads(found.body)["reason"] == "expired"
