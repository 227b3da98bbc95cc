"""An app behind the middleware whose configuration is a file."""

from pathlib import Path

from anyio.abc import TaskGroup

from apf_middleware.asgi import APFMiddleware
from apf_middleware.asgi.identity import FunctionAuthenticator
from tests.support.protected_app import ALL_HEADERS, ProtectedApp

__all__ = ["CROWD", "LEVEL", "QUEUES", "SERVER", "ReloadableApp", "level", "written"]

SERVER = """
apiVersion: apf/v1
kind: Server
metadata: {{name: server}}
spec: {{seats: {seats}, defaults: none{server}}}
"""


LEVEL = """---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: {name}}}
spec: {spec}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: {schema}}}
spec:
  level: {name}
  precedence: {precedence}
  distinguisher: {{source: header, name: X-User}}
  rules:
  - httpRules: [{{paths: ["{path}"]}}]
"""


QUEUES = "queuing: {queues: 2, handSize: 2, queueLengthLimit: 50}"


CROWD = f"{{shares: 1000, {QUEUES}}}"


def level(name: str, spec: str = CROWD, *, path: str = "/*", schema: str = "", precedence: int = 1000) -> str:
    return LEVEL.format(name=name, spec=spec, path=path, schema=schema or f"for-{name}", precedence=precedence)


def written(*levels: str, seats: int = 1, server: str = ALL_HEADERS) -> str:
    return SERVER.format(seats=seats, server=server) + "".join(levels)


class ReloadableApp(ProtectedApp):
    """An app behind the middleware whose configuration is a file."""

    def __init__(self, tasks: TaskGroup, file: Path, text: str, *authenticators: FunctionAuthenticator) -> None:
        super().__init__(tasks)
        self.file = file
        self.file.write_text(text)
        self.middleware = APFMiddleware(self._app, file, authenticators=authenticators)

    async def becomes(self, text: str) -> bool:
        self.file.write_text(text)
        return await self.middleware.reload()

    def loads(self) -> dict[str, int]:
        return dict(self.middleware.service.reading().configuration_loads)
