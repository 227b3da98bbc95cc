"""What operators look at, and ask for, while the server works: dumps, the configuration in force, a reload."""

from apf_middleware.asgi.admin.admin import Admin
from apf_middleware.asgi.admin.answers import MARK
from apf_middleware.asgi.admin.notes import NO_DETAILS, Details, View

__all__ = ["MARK", "NO_DETAILS", "Admin", "Details", "View"]
