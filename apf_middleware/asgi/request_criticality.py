"""The criticality of requests: what their headers claim and their callers may, and what is passed on."""

from collections import Counter

from starlette.types import Scope

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.scope import headers_of
from apf_middleware.classification import Identity
from apf_middleware.config import Configuration
from apf_middleware.config.criticality import CriticalitySettings
from apf_middleware.criticality import Criticality
from apf_middleware.propagation.criticality_reader import CriticalityReader

__all__ = ["RequestCriticality", "build_criticality"]


class RequestCriticality:
    """Tell how critical requests are, as ``settings`` say; ``chain`` knows which ones come from trusted proxies.

    ``ceilings`` are the names of criticalities by schema: requests of such a schema are at most that critical for the
    services that they call. ``reader`` counts what it ignores.
    """

    def __init__(
        self,
        settings: CriticalitySettings,
        chain: Chain,
        ceilings: dict[str, str],
        *,
        invalid: Counter[str] | None = None,
        lowered: Counter[str] | None = None,
    ) -> None:
        usual = Criticality.of(settings.usual)
        self.reader: CriticalityReader = CriticalityReader(settings.headers, usual, invalid=invalid, lowered=lowered)
        self.headers: frozenset[bytes] = frozenset(name.encode("latin-1") for name in settings.headers)
        self._groups = frozenset(settings.groups)
        self._comes_from_proxy = chain.comes_from_proxy
        self._ceilings = {schema: Criticality.of(name) for schema, name in ceilings.items()}

    def claimed(self, scope: Scope, identity: Identity) -> str:
        """Return the name of the criticality that a request has, before it is classified."""
        is_trusted = self._comes_from_proxy(scope) or not self._groups.isdisjoint(identity.groups)
        return self.reader.read(headers_of(scope), is_trusted=is_trusted).key

    def passed_on(self, schema: str, claimed: str) -> Criticality:
        """Return the criticality that requests of this schema are passed on with."""
        found, ceiling = Criticality.of(claimed), self._ceilings.get(schema)
        return found if ceiling is None else min(found, ceiling)

    def __repr__(self) -> str:
        return f"<RequestCriticality {self.reader!r}>"


def build_criticality(
    configuration: Configuration, chain: Chain, before: RequestCriticality | None = None
) -> RequestCriticality | None:
    """Return what tells the criticality of requests, which counts on from ``before``; None if nothing asks for it."""
    ceilings = {schema.name: schema.criticality for schema in configuration.schemas if schema.criticality}
    settings = configuration.server.criticality
    if settings is None and not ceilings:
        return None
    settings = settings or CriticalitySettings(headers={})
    if before is None:
        return RequestCriticality(settings, chain, ceilings)
    reader = before.reader
    return RequestCriticality(settings, chain, ceilings, invalid=reader.invalid, lowered=reader.lowered)
