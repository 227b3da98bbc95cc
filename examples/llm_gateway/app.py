"""A gateway to a language model: seats by the requested tokens, charges by the produced ones.

The model is a stub. A request holds seats for the maximum that it may produce, for the actual number is unknown
beforehand; and its team is charged for what it has produced.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Body, Depends, FastAPI, Header
from fastapi.responses import StreamingResponse

from apf_middleware import Admission, APFMiddleware, get_admission

TOKENS_PER_SEAT = 1000  # as in apf.yaml

app = FastAPI(title="A gateway to a language model")
app.add_middleware(APFMiddleware, config="examples/llm_gateway/apf.yaml")


async def generate(prompt: str, most: int) -> AsyncIterator[str]:
    """Repeat the prompt word by word, in place of a model."""
    for word in prompt.split()[:most]:
        await asyncio.sleep(0.02)
        yield word


@app.post("/v1/completions")
async def complete(
    prompt: Annotated[str, Body(embed=True)],
    admission: Annotated[Admission, Depends(get_admission)],
    x_max_tokens: Annotated[int, Header(ge=1, le=8000)] = 1000,
) -> StreamingResponse:
    """The declared maximum also limits the response, so clients gain nothing by understating it."""

    async def events() -> AsyncIterator[str]:
        produced = 0
        async for word in generate(prompt, x_max_tokens):
            produced += 1
            admission.charge(
                produced / TOKENS_PER_SEAT
            )  # after each word, so that a client that disconnects is charged for what it got
            yield f"data: {word}\n\n"
        usage = {"tokens": produced, "held": admission.seats, "charged": produced / TOKENS_PER_SEAT}
        yield f"data: {json.dumps(usage)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
