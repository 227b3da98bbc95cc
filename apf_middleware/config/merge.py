"""Merge all definitions into one configuration: decide which objects it finally contains.

The result contains the objects that the documents define, the suggested objects with names that no document uses, and
the missing mandatory objects (or the missing backstops: the KEP's fallback schemas and their levels). In a
configuration without errors, nothing depends on the order of documents and files. (The KEP is the proposal in which
Kubernetes introduced the technique; its format differs from that of Kubernetes' code.)
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Generic, Literal, TypeVar

from apf_middleware.classification import Distinguisher, FlowSchema, Source
from apf_middleware.classification.classifier import MASTERS
from apf_middleware.classification.rules import AtomicTest, Conjunction, Field, Operator
from apf_middleware.config.formats import Definition
from apf_middleware.config.metadata import metadata_of
from apf_middleware.config.objects import FALLBACKS, Configuration, Level, Metadata, Queuing
from apf_middleware.config.problems import Problems, dotted
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.suggested import mandatory, newest_version, suggested
from apf_middleware.config.yaml_nodes import Document
from apf_middleware.fairqueuing.sharing.limits import LevelShares
from apf_middleware.frozen import frozen

__all__ = ["AUTO_UPDATE", "Defaults", "MergedObjects", "Sourced", "merge", "settle_slow_clients"]

Defaults = Literal["web", "kubernetes", "none"]
"""The set of suggested objects that is added, if any."""

_Thing = TypeVar("_Thing", Level, FlowSchema)
_LAST: Final = 10_000  # the precedence that is tried last, as that of Kubernetes' catch-all
AUTO_UPDATE: Final = "apf.kubernetes.io/autoupdate-spec"
"""The annotation by which Kubernetes marks a suggested object that nobody has edited."""

_FEW_SEATS: Final = 32  # on a server with at most this many, the levels of the web defaults may lend all their seats
_BLOCKED_NS: Final = 10**9  # the web defaults' releaseWhenBlocked
_TOP_BACKSTOP, _REST_BACKSTOP = FALLBACKS["kep"]  # of equal precedence: the first name is tried first


@frozen
class Sourced(Generic[_Thing]):
    """An object and its source; ``definition`` is None for a built-in object."""

    thing: _Thing
    definition: Definition | None = None


@frozen
class MergedObjects:
    """All merged objects, including schemas of levels that don't exist.

    ``levels`` are by name; ``schemas`` are in the order in which they are tried.
    """

    levels: Mapping[str, Sourced[Level]]
    schemas: tuple[Sourced[FlowSchema], ...]
    server: ServerSettings
    server_document: Document | None = None

    @property
    def used_schemas(self) -> list[Sourced[FlowSchema]]:
        """The schemas of levels that exist; as in Kubernetes, the others are ignored."""
        return [known for known in self.schemas if known.thing.level in self.levels]

    def configuration(self) -> Configuration:
        """Return the configuration of the levels and the `used_schemas`."""
        levels = {name: known.thing for name, known in self.levels.items()}
        used = self.used_schemas
        defined = [(known.thing.name, known.definition) for known in used if known.definition is not None]
        estimates = {name: definition.estimate for name, definition in defined if definition.estimate is not None}
        gates = {name: definition.gates for name, definition in defined if definition.gates}
        return Configuration(
            MappingProxyType(levels),
            tuple(known.thing for known in used),
            self.server,
            MappingProxyType(estimates),
            MappingProxyType(gates),
            MappingProxyType(dict(self._metadata())),
        )

    def _metadata(self) -> Iterator[tuple[tuple[str, str], Metadata]]:
        """Yield the labels and annotations of each object, with its kind and name."""
        found = [(("level", name), known.definition) for name, known in self.levels.items()]
        found += [(("schema", known.thing.name), known.definition) for known in self.used_schemas]
        documents = [(key, definition.document) for key, definition in found if definition is not None]
        if self.server_document is not None:
            documents.append((("server", ""), self.server_document))
        for key, document in documents:
            metadata = metadata_of(document)
            if metadata.labels or metadata.annotations:
                yield key, metadata


def merge(definitions: Sequence[Definition], problems: Problems, defaults: Defaults | None = None) -> MergedObjects:
    """Merge the definitions; conflicts are reported, and the definition that comes first by file and line is kept."""
    ordered = sorted(definitions, key=lambda one: (one.document.place(), str(one.document.base)))
    server = _server(ordered, problems, defaults)
    own = [one for one in ordered if not isinstance(one.thing, ServerSettings)]
    levels: dict[str, Sourced[Level]] = {}
    schemas: dict[str, Sourced[FlowSchema]] = {}
    suggestions = tuple(_suggested(server)) if server.defaults != "none" else ()
    for definition in _without_twins(_updated(own, suggestions, problems), problems):
        if isinstance(definition.thing, Level):
            levels[definition.thing.name] = Sourced(definition.thing, definition)
        elif isinstance(definition.thing, FlowSchema):
            schemas[definition.thing.name] = Sourced(definition.thing, definition)
    for thing in suggestions:
        _add_missing(thing, levels, schemas)
    if server.backstops == "kubernetes":
        _check_mandatory(levels, schemas, problems)
        for thing in mandatory():
            _add_missing(thing, levels, schemas)
    else:
        needed = {known.thing.level for known in schemas.values() if known.definition is None}
        for thing in mandatory():
            if isinstance(thing, Level) and thing.name in needed:
                _add_missing(thing, levels, schemas)
        _add_backstops(
            levels, schemas, [one.thing.name for one in own if one.catch_all and isinstance(one.thing, Level)]
        )
    in_order = sorted(schemas.values(), key=lambda known: (known.thing.precedence, known.thing.name))
    document = next((one.document for one in ordered if isinstance(one.thing, ServerSettings)), None)
    return MergedObjects(dict(sorted(levels.items())), tuple(in_order), server, document)


def _suggested(server: ServerSettings) -> Iterable[Level | FlowSchema]:
    """Yield the suggested objects; on a server with few seats, the web defaults' levels may lend all their seats."""
    has_few = server.defaults == "web" and server.largest_total <= _FEW_SEATS
    for thing in suggested(server.defaults, server.defaults_version):
        if isinstance(thing, Level) and has_few and not thing.exempt:
            yield replace(thing, shares=replace(thing.shares, lendable_percent=100))
        else:
            yield thing


def _updated(
    definitions: Sequence[Definition], suggestions: Sequence[Level | FlowSchema], problems: Problems
) -> list[Definition]:
    """Return the definitions; those that are marked as copies of suggested objects become the present ones."""
    known = {(type(thing), thing.name): thing for thing in suggestions}
    found = []
    for one in definitions:
        thing = one.thing
        suggestion = None if isinstance(thing, ServerSettings) else known.get((type(thing), thing.name))
        if suggestion is not None and metadata_of(one.document).annotations.get(AUTO_UPDATE) == "true":
            if thing != suggestion:
                problems.warn(
                    one.document.place(("metadata", "annotations")),
                    f"the suggested object {suggestion.name!r} is used instead, because this annotation says so",
                    field=f"metadata.annotations.{AUTO_UPDATE}",
                    value="true",
                    hint='Remove the annotation, or write "false", to keep your own spec',
                )
            one = replace(one, thing=suggestion, estimate=None, gates=())  # noqa: PLW2901 - it takes its place
        found.append(one)
    return found


def _server(definitions: Sequence[Definition], problems: Problems, defaults: Defaults | None) -> ServerSettings:
    """Return the server's settings.

    Where ``defaults``, ``backstops`` or ``resolver`` isn't given, its value depends on the formats of the other
    documents. With ``routes``, the resolver is the one that looks at them.
    """
    servers = [one for one in definitions if isinstance(one.thing, ServerSettings)]
    for second in servers[1:]:
        rule = f"there can be only one Server, and {servers[0].document.place()} has it already"
        problems.error(second.document.place(("kind",)), rule, field="kind", value="Server")
    used = {one.format for one in definitions if not isinstance(one.thing, ServerSettings)}
    settings = servers[0].thing if servers else ServerSettings()
    if not isinstance(settings, ServerSettings):
        raise TypeError(settings)
    given = servers[0].given if servers else frozenset()
    following: Defaults = "none" if used and "apf" not in used else "web"
    if defaults is not None or "defaults" not in given:
        settings = replace(settings, defaults=defaults or following)
    settings = _with_known_version(settings, servers, problems)
    if "backstops" not in given:
        settings = replace(
            settings, backstops="kep" if used == {"kep"} and settings.defaults == "none" else "kubernetes"
        )
    if "resolver" not in given:
        kubernetes = settings.defaults == "kubernetes" or (used and "apf" not in used)
        settings = replace(settings, resolver="kubernetes" if kubernetes and not settings.routes else "web")
    return settle_slow_clients(settings, given)


def _with_known_version(settings: ServerSettings, servers: Sequence[Definition], problems: Problems) -> ServerSettings:
    """Return the settings; it is an error if there is no such version of the suggested objects."""
    newest = 0 if settings.defaults == "none" else newest_version(settings.defaults)
    if newest and servers and settings.defaults_version > newest:
        place = servers[0].document.place(("spec", "defaultsVersion"))
        rule = f"the newest version of defaults: {settings.defaults} is {newest}"
        hint = "Upgrade apf-middleware, or write another number"
        problems.error(place, rule, field="spec.defaultsVersion", value=settings.defaults_version, hint=hint)
        return replace(settings, defaults_version=newest)
    return settings


def settle_slow_clients(settings: ServerSettings, given: Collection[str] = ()) -> ServerSettings:
    """Set the defaults for slow clients, except those that are ``given``.

    With the web defaults, a request holds its seat for at most a moment while it waits for a slow client.
    """
    is_web, bodies, streams = settings.defaults == "web", settings.bodies, settings.streams
    if "bodies.holdSeats" not in given:
        settings = replace(settings, bodies=replace(bodies, hold_seats=not is_web))
    if "streams.releaseWhenBlocked" not in given:
        blocked_ns = _BLOCKED_NS if is_web else 0
        settings = replace(settings, streams=replace(streams, release_when_blocked_ns=blocked_ns))
    return settings


def _without_twins(definitions: Sequence[Definition], problems: Problems) -> Iterable[Definition]:
    """Resolve duplicate names: keep only the first of several objects that have the same kind and name.

    Schemas in the KEP's format are an exception. If all objects of one name are such schemas, only exact copies are
    dropped. Of the remaining schemas, one keeps the name, and the others get new names.
    """
    groups: dict[tuple[str, str], list[Definition]] = defaultdict(list)
    for one in definitions:
        groups[type(one.thing).__name__, getattr(one.thing, "name", "")].append(one)
    taken = {name for _, name in groups}
    for same in groups.values():
        yield from [same[0]] if len(same) == 1 else _settled(same, taken, problems)


def _settled(same: list[Definition], taken: set[str], problems: Problems) -> Iterable[Definition]:
    first = same[0]
    if not all(isinstance(one.thing, FlowSchema) and one.format == "kep" for one in same):
        for one in same[1:]:
            _tell_twin(one, first, problems)
        return [first]
    # Even the KEP's example has two schemas of one name. Each schema has its own flows and so needs its own name.
    # Which schema gets which name depends on their contents, not on their order in the files.
    same = sorted(
        same, key=lambda one: (one.thing.precedence if isinstance(one.thing, FlowSchema) else 0, repr(one.thing))
    )
    settled = [same[0]]
    number = 2
    for before, one in pairwise(same):
        if not isinstance(one.thing, FlowSchema) or one.thing == before.thing:  # a copy
            continue
        while f"{one.thing.name}-{number}" in taken:
            number += 1
        name = f"{one.thing.name}-{number}"
        taken.add(name)
        problems.warn(
            one.document.place(("meta", "name")),
            f"{same[0].document.place()} has a schema of this name too, so this one is called {name!r}",
            field="meta.name",
            value=one.thing.name,
            hint="Give each schema a name of its own",
        )
        settled.append(replace(one, thing=replace(one.thing, name=name)))
    return settled


def _tell_twin(one: Definition, first: Definition, problems: Problems) -> None:
    kind = "level" if isinstance(one.thing, Level) else "schema"
    rule = f"{first.document.place(_name_path(first))} has a {kind} of this name already"
    _refuse_name(one, rule, "Rename or remove one of them", problems)


def _refuse_name(one: Definition, rule: str, hint: str, problems: Problems) -> None:
    """Report that there can't be an object like this of its name."""
    path, name = _name_path(one), getattr(one.thing, "name", "")
    problems.error(one.document.place(path), rule, field=dotted(path), value=name, hint=hint)


def _name_path(one: Definition) -> tuple[str, str]:
    return ("meta" if one.format == "kep" else "metadata"), "name"


def _add_missing(
    thing: Level | FlowSchema, levels: dict[str, Sourced[Level]], schemas: dict[str, Sourced[FlowSchema]]
) -> None:
    if isinstance(thing, Level):
        levels.setdefault(thing.name, Sourced(thing))
    else:
        schemas.setdefault(thing.name, Sourced(thing))


def _check_mandatory(
    levels: Mapping[str, Sourced[Level]], schemas: Mapping[str, Sourced[FlowSchema]], problems: Problems
) -> None:
    """Check that mandatory objects keep their meaning, so that no configuration locks all users out."""
    for thing in mandatory():
        known = levels.get(thing.name) if isinstance(thing, Level) else schemas.get(thing.name)
        if known is None or known.definition is None or known.thing == thing:
            continue
        definition = known.definition
        if isinstance(thing, FlowSchema):
            rule = "the spec of this mandatory schema can't be changed"
        elif isinstance(known.thing, Level) and known.thing.exempt == thing.exempt:
            if thing.exempt or definition.format != "kubernetes":
                # Users may change the settings of level `exempt` and, except in Kubernetes' format, those of level
                # `catch-all`.
                continue
            rule = "the spec of this mandatory level can't be changed"
        else:
            rule = f"this mandatory level must {'' if thing.exempt else 'not '}be exempt"
        _refuse_name(definition, rule, "Remove this object: it exists anyway", problems)


def _add_backstops(
    levels: dict[str, Sourced[Level]], schemas: dict[str, Sourced[FlowSchema]], catch_alls: Sequence[str]
) -> None:
    """Add those backstops of the KEP that are missing; a schema of a level that doesn't exist is no backstop."""
    for name in (_TOP_BACKSTOP, _REST_BACKSTOP):
        if name in schemas and schemas[name].thing.level not in levels:
            del schemas[name]
    exempt = sorted(name for name, known in levels.items() if known.thing.exempt)
    if not exempt:
        exempt = [_free("system-top", levels)]
        levels[exempt[0]] = Sourced(Level(exempt[0], LevelShares(0, exempt=True)))
    masters = Conjunction((AtomicTest(Field.GROUPS, Operator.SUPER_SET, (MASTERS,)),))
    _add_missing(FlowSchema(_TOP_BACKSTOP, exempt[0], _LAST, (masters,)), levels, schemas)
    if _REST_BACKSTOP in schemas:
        return
    others = {name for name, known in levels.items() if not known.thing.exempt}
    catch_all = sorted(catch_alls) or sorted(others & {"workload-low", "catch-all"})
    if not catch_all:
        catch_all = [_free("workload-low", levels)]
        levels[catch_all[0]] = Sourced(Level(catch_all[0], LevelShares(100), Queuing(128, 6, 100)))
    rest = FlowSchema(_REST_BACKSTOP, catch_all[0], _LAST, (Conjunction(),), Distinguisher(Source.USER))
    _add_missing(rest, levels, schemas)


def _free(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "-backstop"
    return name
