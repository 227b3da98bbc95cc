"""A Django project in one file: what would be settings.py, urls.py, views.py and asgi.py elsewhere."""

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

from apf_middleware import APFMiddleware

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], SECRET_KEY="for an example only", MIDDLEWARE=[])  # noqa: S106
django.setup()


async def hello(request: HttpRequest) -> JsonResponse:
    admission = request.scope["apf"]
    return JsonResponse({"hello": "world", "level": admission.level, "flow": admission.flow})


def report(request: HttpRequest) -> JsonResponse:
    """Run in Django's thread; the seat is held all the same."""
    return JsonResponse({"seats": request.scope["apf"].seats})


urlpatterns = [path("", hello), path("report", report)]
app = APFMiddleware(get_asgi_application(), config="examples/django_app/apf.yaml")
