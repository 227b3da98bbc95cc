"""HAProxy and nginx in front of a server, as people configure them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.prerequisites import require_program
from tests.support.servers import Server, await_answer, free_port

__all__ = ["haproxy", "nginx"]

_HAPROXY: Final = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout queue 60s
frontend front
  bind 127.0.0.1:{port}
  {rules}
  default_backend app
backend app
  server one 127.0.0.1:{backend} maxconn 1
"""

_NGINX: Final = """
daemon off;
pid {folder}/pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream app {{ server 127.0.0.1:{backend}; }}
  server {{
    listen 127.0.0.1:{port};
    {rules}
  }}
}}
"""


@contextmanager
def haproxy(backend: Server, folder: Path, rules: str) -> Iterator[Server]:
    """Run HAProxy, which lets one request at a time go to the server; others wait in its queue."""
    port, program = free_port(), _program("haproxy")
    require_program(program, "haproxy")
    path = folder / "haproxy.cfg"
    path.write_text(_HAPROXY.format(port=port, backend=backend.port, rules=rules))
    with _running([str(program), "-db", "-f", str(path)], port, folder / "haproxy.log") as proxy:
        yield proxy


@contextmanager
def nginx(backend: Server, folder: Path, rules: str) -> Iterator[Server]:
    """Run nginx, which knows the server as ``http://app``."""
    port, program = free_port(), _program("nginx")
    require_program(program, "nginx-light")
    path = folder / "nginx.conf"
    path.write_text(_NGINX.format(folder=folder, port=port, backend=backend.port, rules=rules))
    options = ["-e", str(folder / "nginx.err"), "-p", str(folder), "-c", str(path)]
    with _running([str(program), *options], port, folder / "nginx.log") as proxy:
        yield proxy


def _program(name: str) -> str | None:
    """Return the path of a program that Debian installs among those of administrators."""
    return shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")


@contextmanager
def _running(command: list[str], port: int, written: Path) -> Iterator[Server]:
    with written.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    proxy = Server(process, port, written)
    try:
        await_answer(proxy, "/left")
        yield proxy
    finally:
        proxy.stop()
