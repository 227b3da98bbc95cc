"""Three services on this machine: a shop that asks an order service, which asks a stock service.

The shop has the port 8000, or that of UVICORN_PORT; the others take free ones. When the shop ends, all do.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

COMMAND = [sys.executable, "-m", "uvicorn", "examples.three_services.app:app"]


def free_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


def start(name: str, port: str, beyond: str) -> subprocess.Popen[bytes]:
    """Start a service that asks the one ``beyond``, and wait until it answers."""
    environment = os.environ | {"SERVICE_NAME": name, "SERVICE_NEXT": beyond, "UVICORN_PORT": port}
    server = subprocess.Popen(COMMAND, env=environment)  # noqa: S603 - the command is above
    while server.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
            break
        time.sleep(0.05)
    return server


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    servers, beyond = [], ""
    try:
        for name, port in (
            ("stock", free_port()),
            ("orders", free_port()),
            ("shop", os.environ.get("UVICORN_PORT", "8000")),
        ):
            servers.append(start(name, port, beyond))
            beyond = f"http://127.0.0.1:{port}"
        sys.exit(servers[-1].wait())
    except KeyboardInterrupt:
        pass
    finally:
        for server in reversed(servers):
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
