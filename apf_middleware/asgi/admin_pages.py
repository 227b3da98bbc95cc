"""The admin with all pages that its settings ask for."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from apf_middleware.asgi.admin import Admin, View
from apf_middleware.asgi.console.resource import ConsoleResource
from apf_middleware.config.admin import AdminSettings

if TYPE_CHECKING:
    from apf_middleware.asgi.admin.protocol import AdminResource

__all__ = ["build_admin"]


def build_admin(view: View, settings: AdminSettings, offset: Callable[[], int]) -> Admin:
    """Return the admin about ``view``; the server's owner has the console even if ``settings`` have none."""
    console: dict[str, AdminResource] = {"console": ConsoleResource(view, settings.app, offset)}
    return Admin(view, settings, offset, console) if settings.console else Admin(view, settings, offset, {}, console)
