"""A process that is killed has ended for all others, although a child that it has forked goes on."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apf_middleware.config.sockets import is_refused
from apf_middleware.fleet.messages import Report, write
from apf_middleware.runtime.fleet.frames import framed

CONFIG = """
apiVersion: apf/v1
kind: Server
spec: {seats: 2, fleet: {name: shop}}
"""

FORKING = """
import os, sys, time
import anyio
from apf_middleware import APFMiddleware

async def app(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()

messages = [{"type": "lifespan.startup"}]

async def receive():
    if messages:
        return messages.pop()
    print("ready", flush=True)
    await anyio.to_thread.run_sync(sys.stdin.readline)
    if not os.fork():
        print("forked", flush=True)
        time.sleep(600)
    await anyio.sleep_forever()

async def send(message):
    pass

anyio.run(APFMiddleware(app, sys.argv[1]), {"type": "lifespan"}, receive, send, backend=sys.argv[2])
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_child_keeps_no_socket_of_a_process_that_is_killed(tmp_path: Path, directory: Path, backend: str) -> None:
    config = tmp_path / "apf.yaml"
    config.write_text(CONFIG)
    command = [sys.executable, "-c", FORKING, str(config), backend]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "APF_RUNTIME_DIR": str(directory)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            sockets = {"control": directory / f"app.{process.pid}.sock", "fleet": directory / "fleet-shop/epoch-1.sock"}
            with socket.socket(socket.AF_UNIX) as peer:
                while is_refused(sockets["fleet"]):  # it begins an epoch as soon as it has started
                    time.sleep(0.01)
                peer.settimeout(30)
                peer.connect(str(sockets["fleet"]))
                peer.sendall(framed(write(Report("peer", 1, 1, 0, 0, 0))))
                assert peer.recv(1), "the connection is accepted"
                process.stdin.write("\n")
                process.stdin.flush()
                assert process.stdout.readline() == "forked\n"
                assert not any(map(is_refused, sockets.values()))
                process.kill()
                process.wait()
                assert all(map(is_refused, sockets.values()))
                while peer.recv(2**16):
                    pass
        finally:
            os.killpg(process.pid, signal.SIGKILL)
