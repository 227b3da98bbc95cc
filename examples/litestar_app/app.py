"""A Litestar app, wrapped. A dependency gives handlers the admission of their request."""

from typing import Any

from litestar import Litestar, Request, get
from litestar.di import Provide

from apf_middleware import Admission, APFMiddleware


async def admission_of(request: Request[Any, Any, Any]) -> Admission:
    admission: Admission = request.scope["apf"]  # type: ignore[typeddict-item]
    return admission


@get("/")
async def hello(admission: Admission) -> dict[str, object]:
    return {"hello": "world", "level": admission.level, "flow": admission.flow}


@get("/reports/{name:str}")
async def report(name: str, admission: Admission) -> dict[str, object]:
    return {"report": name, "seats": admission.seats}


shop = Litestar([hello, report], dependencies={"admission": Provide(admission_of)}, openapi_config=None)
app = APFMiddleware(shop, config="examples/litestar_app/apf.yaml")
