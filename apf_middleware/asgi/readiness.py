"""A path that tells balancers whether this server should get requests now."""

import json
from typing import Final

from apf_middleware.asgi.load_reports import rejected_for_load
from apf_middleware.asgi.responses import JSON, Answer, uncached_answer
from apf_middleware.config.load_reports import ReadinessSettings
from apf_middleware.load_reports.readiness import Readiness
from apf_middleware.runtime import Controller

__all__ = ["ReadinessProbe"]

_SECOND: Final = 10**9


class ReadinessProbe:
    """Answer 503 while levels of ``controller`` reject too much, or while the server shuts down."""

    def __init__(self, settings: ReadinessSettings, controller: Controller) -> None:
        self.settings: ReadinessSettings = settings
        self._controller = controller
        self._readiness = Readiness(settings.levels, settings.after_ns, settings.recover_ns)
        self._look(controller.now())

    @property
    def path(self) -> str:
        """The path of the probe."""
        return self.settings.path

    def answer(self, now: int) -> Answer:
        """Return 200 if this server should get requests, and 503 otherwise."""
        rejecting = self._look(now)
        closing = self._controller.is_closing
        is_ready = not closing and (self._controller.is_passing or not rejecting)
        found = {
            "ready": is_ready,
            "closing": closing,
            "rejecting": {level: round((now - since) / _SECOND, 3) for level, since in rejecting.items()},
        }
        return uncached_answer(200 if is_ready else 503, [JSON], json.dumps(found).encode())

    def _look(self, now: int) -> dict[str, int]:
        counts = {runtime.name: rejected_for_load(runtime) for runtime in self._controller.registry.shown}
        return self._readiness.look(now, counts)

    def __repr__(self) -> str:
        return f"<ReadinessProbe {self._readiness!r}>"
