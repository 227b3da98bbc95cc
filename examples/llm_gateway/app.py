"""A gateway to a language model: seats by the tokens that are asked for, charged by those that came.

The model is made up. What matters is around it: a request holds the seats of all that it may produce, for nobody knows
beforehand how much that will be; and its team is billed for what it did produce.
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
    """Whoever understates gets less, for the same number ends the answer: so everybody's word can be believed."""

    async def events() -> AsyncIterator[str]:
        produced = 0
        async for word in generate(prompt, x_max_tokens):
            produced += 1
            admission.charge(produced / TOKENS_PER_SEAT)  # each time: who leaves in between is charged up to there
            yield f"data: {word}\n\n"
        told = {"tokens": produced, "held": admission.seats, "charged": produced / TOKENS_PER_SEAT}
        yield f"data: {json.dumps(told)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
