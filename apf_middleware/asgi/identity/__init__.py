"""Identification of callers: a chain of authenticators, and the client's address behind trusted proxies."""

from apf_middleware.asgi.identity.address import TrustedProxies
from apf_middleware.asgi.identity.authenticator import Authenticator
from apf_middleware.asgi.identity.build import build_chain
from apf_middleware.asgi.identity.chain import Chain
from apf_middleware.asgi.identity.function import FunctionAuthenticator
from apf_middleware.asgi.identity.tokens import TokenAuthenticator
from apf_middleware.asgi.identity.verdict import Authenticated, Refused, Verdict, refuse

__all__ = [
    "Authenticated",
    "Authenticator",
    "Chain",
    "FunctionAuthenticator",
    "Refused",
    "TokenAuthenticator",
    "TrustedProxies",
    "Verdict",
    "build_chain",
    "refuse",
]
