"""The interface of authenticators: Python code may inherit from it, in the compiled build too."""

from starlette.types import Scope

from apf_middleware.asgi.identity import Authenticated, Authenticator
from apf_middleware.classification import Identity
from tests.support.authentication import request, verdict_of


class ByPath(Authenticator):
    """Takes the path of a request for the name of its caller."""

    headers: frozenset[bytes] = frozenset()
    memorable = False

    def authenticate(self, scope: Scope) -> Authenticated:
        return Authenticated(Identity(scope["path"], ("paths",)))

    def refresh(self) -> bool:
        return False


def test_a_class_may_inherit_from_the_interface() -> None:
    verdict = verdict_of(ByPath(), request(path="/x"))

    assert isinstance(verdict, Authenticated)
    assert verdict.identity.name == "/x"
    assert verdict.identity.groups == ("paths", "system:authenticated")
