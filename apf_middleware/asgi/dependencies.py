"""The admission of the request at hand, typed: for handlers, and as a dependency of FastAPI.

@app.get("/report")
async def report(admission: Annotated[Admission, Depends(get_admission)]) -> ...
"""

from starlette.requests import HTTPConnection

from apf_middleware.exceptions import MissingAdmissionError
from apf_middleware.runtime import Admission

__all__ = ["get_admission"]


async def get_admission(connection: HTTPConnection) -> Admission:
    """The admission of this request or WebSocket."""
    admission = connection.scope.get("apf")
    if not isinstance(admission, Admission):
        raise MissingAdmissionError(connection.scope.get("path", ""))
    return admission
