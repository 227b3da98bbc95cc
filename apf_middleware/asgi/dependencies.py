"""Typed access to the admission of the current request, for handlers and as a dependency of FastAPI.

@app.get("/report")
async def report(admission: Annotated[Admission, Depends(get_admission)]) -> ...
"""

from starlette.requests import HTTPConnection

from apf_middleware.exceptions import MissingAdmissionError
from apf_middleware.runtime import Admission

__all__ = ["get_admission"]


async def get_admission(connection: HTTPConnection) -> Admission:
    """Return the admission of this request or WebSocket; MissingAdmissionError if the middleware is not in place."""
    admission = connection.scope.get("apf")
    if not isinstance(admission, Admission):
        raise MissingAdmissionError(connection.scope.get("path", ""))
    return admission
