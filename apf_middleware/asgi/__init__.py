"""The ASGI middleware: classification of requests, waiting, responses, identity and administration."""

from apf_middleware.asgi.dependencies import get_admission
from apf_middleware.asgi.middleware import APFMiddleware

__all__ = ["APFMiddleware", "get_admission"]
