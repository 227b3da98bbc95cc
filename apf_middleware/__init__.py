"""API Priority and Fairness for Python web servers.

The names offered here are imported on first use: the core works without a web framework, and the command line starts
without one.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from apf_middleware import counters
from apf_middleware._version import __version__

if TYPE_CHECKING:
    from apf_middleware.asgi import APFMiddleware, get_admission
    from apf_middleware.config import Configuration, ConfigurationError, load
    from apf_middleware.exceptions import APFError
    from apf_middleware.fairqueuing import Reason
    from apf_middleware.gates import Gates
    from apf_middleware.runtime import Admission

__all__ = [
    "APFError",
    "APFMiddleware",
    "Admission",
    "Configuration",
    "ConfigurationError",
    "Gates",
    "Reason",
    "__version__",
    "get_admission",
    "is_compiled",
    "load",
]

is_compiled: bool = not str(counters.__file__).endswith(".py")
"""Whether the package was built with its hot path compiled to native code."""

_HOMES = {
    "APFError": "exceptions",
    "APFMiddleware": "asgi",
    "Admission": "runtime",
    "Configuration": "config",
    "ConfigurationError": "config",
    "Gates": "gates",
    "Reason": "fairqueuing",
    "get_admission": "asgi",
    "load": "config",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'apf_middleware' has no attribute {name!r}")
    found = getattr(import_module(f"apf_middleware.{home}"), name)
    globals()[name] = found
    return found
