"""Rejections are logged in sums."""

import logging

import anyio
import pytest

from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.runtime import Admission, Destination, RejectionLog
from tests.support.level_world import PLACE, LevelWorld
from tests.support.virtual_loop import VirtualLoop


def rejected(world: LevelWorld) -> Admission:
    """Return an admission that is rejected on arrival."""
    admission = world.arrive()
    world.release(admission)
    admission.renew()
    world.controller.refuse(world.time, admission, Reason.TIME_OUT)
    return admission


@pytest.mark.parametrize(("level", "single"), [(logging.WARNING, 0), (logging.DEBUG, 3)])
def test_rejections_are_summed_up_for_ten_seconds(caplog: pytest.LogCaptureFixture, level: int, single: int) -> None:
    caplog.set_level(level, "apf_middleware")
    admission = rejected(LevelWorld())

    async def reject() -> None:
        log = RejectionLog(lambda: round(anyio.current_time() * 10**9))
        for _ in range(3):
            log.note(admission)
            await anyio.sleep(3)
        assert not [one for one in caplog.records if one.levelno > logging.DEBUG]
        await anyio.sleep(2)
        log.summarize()

    anyio.run(reject, backend="asyncio", backend_options={"loop_factory": VirtualLoop})
    assert [one.__dict__["event"] for one in caplog.records] == ["apf.rejected"] * single + ["apf.rejections"]
    record = caplog.records[-1]
    assert record.levelno == logging.WARNING
    assert record.__dict__["apf"] == {"level": "crowd", "schema": "all", "reason": "time-out", "count": 3}
    assert record.getMessage() == "apf.rejections level=crowd schema=all reason=time-out count=3"


def test_rejections_of_reads_and_writes_are_summed_up_together(caplog: pytest.LogCaptureFixture) -> None:
    world = LevelWorld()
    log = RejectionLog(lambda: world.time)
    for writes, reason in ((False, Reason.TIME_OUT), (True, Reason.TIME_OUT), (True, Reason.QUEUE_FULL)):
        admission = Admission(Destination(world.controller, PLACE, Work(), writes=writes))
        world.controller.refuse(world.time, admission, reason)
        log.note(admission)
    log.summarize()
    log.summarize()  # nothing is left

    counts = [(one.__dict__["apf"]["reason"], one.__dict__["apf"]["count"]) for one in caplog.records]
    assert counts == [("queue-full", 1), ("time-out", 2)]
