"""An API with many tenants: their plan decides the level, and each tenant is a flow of its own."""

import asyncio
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException

from apf_middleware import Admission, APFMiddleware, get_admission
from examples.fastapi_tenants.issue import ensure_keys

ensure_keys()  # so that the example starts at once; elsewhere the login service's public key is deployed

app = FastAPI(title="Orders of many tenants")
app.add_middleware(APFMiddleware, config="examples/fastapi_tenants/apf.yaml")

Admitted = Annotated[Admission, Depends(get_admission)]


async def tenant_of(admission: Admitted) -> str:
    """Return the tenant of the caller's credentials: the groups tenant:… distinguish flows."""
    if not admission.flow.startswith("tenant:"):
        raise HTTPException(401, "Come with a token or an API key", {"www-authenticate": "Bearer"})
    return admission.flow.removeprefix("tenant:")


Tenant = Annotated[str, Depends(tenant_of)]


@app.get("/orders")
async def orders(tenant: Tenant, admission: Admitted) -> dict[str, object]:
    return {"tenant": tenant, "level": admission.level, "orders": [17, 4]}


@app.get("/report")
async def report(tenant: Tenant, admission: Admitted) -> dict[str, object]:
    """Slow: it has a level with two seats, so that no number of reports slows down anybody's orders."""
    await asyncio.sleep(0.5)
    return {"tenant": tenant, "level": admission.level, "total": 21}
