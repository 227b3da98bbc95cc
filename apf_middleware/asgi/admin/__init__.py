"""What operators look at while the server works: debug dumps, the configuration in force, and who is heavy."""

from apf_middleware.asgi.admin.admin import MARK, Admin
from apf_middleware.asgi.admin.notes import NO_DETAILS, Details, View

__all__ = ["MARK", "NO_DETAILS", "Admin", "Details", "View"]
