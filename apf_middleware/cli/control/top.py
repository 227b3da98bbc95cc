"""A live screen."""

from apf_middleware.cli.control.server import Server

__all__ = ["watch"]


def watch(server: Server, interval: float) -> None:
    """Later."""
