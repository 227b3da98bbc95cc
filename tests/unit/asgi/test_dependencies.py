"""The dependency that returns a request's admission."""

import pytest
from starlette.requests import Request

from apf_middleware.asgi import get_admission
from apf_middleware.exceptions import MissingAdmissionError
from tests.support.asgi_exchange import http_scope

pytestmark = pytest.mark.anyio


async def test_without_the_middleware_there_is_no_admission() -> None:
    with pytest.raises(MissingAdmissionError, match="/x"):
        await get_admission(Request(http_scope("/x")))
