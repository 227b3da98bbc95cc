"""A worker behind a Unix socket that gives a fixed answer to every request."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from apf_middleware.cli.control.workers import SocketWorker
from apf_middleware.config.sockets import SocketFile

__all__ = ["socket_worker"]

Workers = Iterator[tuple[SocketWorker, bytearray]]


@contextmanager
def socket_worker(
    directory: Path, reply: bytes | None, pid: int = 7, app: str = "shop", *, refuses_early: bool = False
) -> Workers:
    """Run a worker that gives this answer to every request, and return the requests; None: no answer at all."""
    path = directory / f"{app}.{pid}.sock"
    received = bytearray()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        over = threading.Event()

        def answer() -> None:
            while not over.is_set():
                connection, _ = listener.accept()
                with connection, suppress(OSError):  # some only look whether the worker listens
                    if reply is None:
                        over.wait(60)
                    else:
                        received.extend(connection.recv(65536))
                        while b"}" not in received and received.startswith(b"POST") and not refuses_early:
                            received.extend(connection.recv(65536))
                        connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield SocketWorker(SocketFile(app, pid, path)), received
        finally:
            over.set()
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
            thread.join()
