"""One of three services: it asks the next one, and tells for all of them what they knew about the request."""

import os
from typing import Annotated

import httpx
from fastapi import Depends, FastAPI

from apf_middleware import Admission, APFMiddleware, get_admission
from apf_middleware.adapters.criticality import CriticalityHeaders
from apf_middleware.adapters.deadlines import DeadlineHeaders

NAME = os.environ.get("SERVICE_NAME", "shop")
NEXT = os.environ.get("SERVICE_NEXT", "")
"""The address of the service that this one asks; the last one has none."""

app = FastAPI(title=NAME)
app.add_middleware(APFMiddleware, config="examples/three_services/apf.yaml")

passed_on = [CriticalityHeaders().tell_async, DeadlineHeaders().tell_async]
client = httpx.AsyncClient(base_url=NEXT, event_hooks={"request": passed_on}, trust_env=False)

Known = dict[str, str | None]


@app.get("/order")
@app.get("/export")
async def serve(admission: Annotated[Admission, Depends(get_admission)]) -> list[Known]:
    """Return what each service knows: the level, the criticality, and whether some of the time is left."""
    left = None if admission.remaining is None else "in time" if admission.remaining > 0 else "late"
    known: Known = {"service": NAME, "level": admission.level, "criticality": admission.criticality, "deadline": left}
    if not NEXT:
        return [known]
    answer = await client.get("/order")
    return [known, *answer.raise_for_status().json()]
