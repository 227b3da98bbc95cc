"""The admin of a running server: debug dumps, the configuration in force, reload, named queues and gates."""

from apf_middleware.asgi.admin.admin import Admin
from apf_middleware.asgi.admin.observation import NO_DETAILS, Details, View
from apf_middleware.asgi.admin.protocol import MARK

__all__ = ["MARK", "NO_DETAILS", "Admin", "Details", "View"]
