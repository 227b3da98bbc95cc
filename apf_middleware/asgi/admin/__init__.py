"""The admin of a running server: debug dumps, the configuration in force, reload, named queues and gates."""

from apf_middleware.asgi.admin.admin import Admin
from apf_middleware.asgi.admin.observation import View

__all__ = ["Admin", "View"]
