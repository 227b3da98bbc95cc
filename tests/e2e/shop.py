"""A server of several workers that is operated by the command line: started once, asked by sockets and over HTTP."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from apf_middleware.config.sockets import find_sockets
from tests.support.command_line import Outcome, run_apf, run_installed
from tests.support.servers import Kind, Server, serve

__all__ = ["Shop", "open_shop"]

CONFIG = Path(__file__).parent / "data" / "queues.yaml"


@dataclass(frozen=True)
class Shop:
    """``folder`` has the configuration; ``sockets`` those of the workers."""

    server: Server
    folder: Path
    sockets: Path

    @property
    def config(self) -> Path:
        return self.folder / "apf.yaml"

    @property
    def pids(self) -> list[int]:
        return [one.pid for one in find_sockets(self.sockets)]

    def apf(self, *arguments: object, group: str = "queue", **environment: str) -> Outcome:
        """Run ``apf queue …`` in this process."""
        variables = {"APF_RUNTIME_DIR": str(self.sockets), "APF_TOKEN": "", **environment}
        return run_apf(group, *arguments, **variables)

    def run_apf(self, *arguments: object) -> Outcome:
        """Run ``apf queue …`` as a process."""
        return run_installed("queue", *arguments, APF_RUNTIME_DIR=str(self.sockets))

    def become(self, workers: int) -> None:
        """Until so many workers have sockets that answer."""
        until = time.monotonic() + 60
        while self.apf("list", "-o", "json").stdout.count('"answered": true') != workers:
            assert time.monotonic() < until, f"there should be {workers} workers: {self.server.output()}"
            time.sleep(0.05)


@contextmanager
def open_shop(*options: str, kind: Kind = "uvicorn", workers: int = 2, request_timeout: str = "20s") -> Iterator[Shop]:
    """Run the server, ready when all its workers can be operated; requests wait for a quarter of the time-out."""
    with tempfile.TemporaryDirectory(prefix="apf-") as name:
        folder = Path(name)
        (folder / "tokens.csv").write_text('secret-o,olga,1,"operators"\nsecret-l,louis,2,"lookers"\n')
        text = CONFIG.read_text().replace("TOKENS", str(folder / "tokens.csv"))
        (folder / "apf.yaml").write_text(text.replace("requestTimeout: 20s", f"requestTimeout: {request_timeout}"))
        environment = {"APF_TEST_CONFIG": str(folder / "apf.yaml"), "APF_RUNTIME_DIR": str(folder / "run")}
        given = ("--workers", str(workers), *options)
        with serve("tests.e2e.playground:app", *given, kind=kind, environment=environment, ready="/tell") as server:
            shop = Shop(server, folder, folder / "run")
            shop.become(workers)
            yield shop
