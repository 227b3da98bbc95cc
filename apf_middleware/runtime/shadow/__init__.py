"""A second configuration that is tried with the requests of a running server, and what it would decide."""

from apf_middleware.runtime.shadow.place import ShadowPlace
from apf_middleware.runtime.shadow.request import ShadowRequest
from apf_middleware.runtime.shadow.server import ShadowServer

__all__ = ["ShadowPlace", "ShadowRequest", "ShadowServer"]
