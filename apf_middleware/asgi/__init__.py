"""The edges: where requests come in, and what clients are told."""

from apf_middleware.asgi.dependencies import get_admission
from apf_middleware.asgi.middleware import APFMiddleware

__all__ = ["APFMiddleware", "get_admission"]
