"""Writing a configuration: domain objects as documents of Kubernetes' v1 or of ``apf/v1``, and those as YAML.

The output is complete, including the mandatory and suggested objects, so that reading it gives the same objects. A
setting that the target can't express is a problem that names object and field.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

import yaml

from apf_middleware.classification import FlowSchema
from apf_middleware.config.formats.apf import level_document, schema_document, server_document
from apf_middleware.config.merge import settle_slow_clients
from apf_middleware.config.objects import Configuration, Metadata
from apf_middleware.config.problems import ConfigurationError, Place, Problems
from apf_middleware.config.server import ServerSettings
from apf_middleware.config.suggested import suggested

__all__ = ["Target", "convert", "emit", "emit_documents", "to_yaml"]

Target = Literal["v1", "apf"]
"""Kubernetes' flowcontrol.apiserver.k8s.io/v1, or apf/v1."""

_Written = tuple[tuple[str, str], dict[str, Any]]  # what an object is and its name, with its document

_WIDTH: Final = 120

_Dumper: type[yaml.SafeDumper] = type("_Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})


def emit(configuration: Configuration, target: Target = "apf") -> str:
    """Return the configuration as YAML, or raise ConfigurationError if the target can't express all of it."""
    problems = Problems()
    text = convert(configuration, target, problems)
    if problems.errors:
        raise ConfigurationError(problems)
    return text


def convert(configuration: Configuration, target: Target, problems: Problems) -> str:
    """Return the configuration as YAML, without what the target can't express, which is added to ``problems``."""
    return to_yaml(emit_documents(configuration, target, problems))


def to_yaml(several: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as YAML."""
    return yaml.dump_all(
        list(several), Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True, explicit_start=True
    )


def emit_documents(configuration: Configuration, target: Target, problems: Problems) -> Iterator[dict[str, Any]]:
    """Yield a document for each object, as plain data: settings, levels by name, schemas in order."""
    known, written = configuration.metadata, _documents if target == "apf" else _manifests
    for key, document in written(configuration, problems):
        yield _with_metadata(document, known.get(key))


def _documents(configuration: Configuration, problems: Problems) -> Iterator[_Written]:
    """Yield documents of ``apf/v1``."""
    server = configuration.server
    if _lacks_suggested(configuration):
        server = replace(server, defaults="none")  # otherwise it would be added when the documents are read
    yield ("server", ""), server_document(server, problems)
    for level in configuration.levels.values():
        yield ("level", level.name), level_document(level)
    for schema in configuration.schemas:
        estimate, gates = configuration.estimates.get(schema.name), configuration.gates.get(schema.name, ())
        yield ("schema", schema.name), schema_document(schema, problems, estimate, gates)


def _lacks_suggested(configuration: Configuration) -> bool:
    """Return whether a suggested schema is missing, because another one of its name has no level and is ignored."""
    server, names = configuration.server, {schema.name for schema in configuration.schemas}
    things = () if server.defaults == "none" else suggested(server.defaults, server.defaults_version)
    schemas = [thing for thing in things if isinstance(thing, FlowSchema) and thing.level in configuration.levels]
    return any(schema.name not in names for schema in schemas)


def _manifests(configuration: Configuration, problems: Problems) -> Iterator[_Written]:
    """Yield documents of Kubernetes' v1."""
    from apf_middleware.config.formats.kubernetes import (  # noqa: PLC0415 - it is expensive, and seldom the target
        level_manifest,
        schema_manifest,
    )

    _warn_of_settings(configuration.server, problems)
    for level in configuration.levels.values():
        yield ("level", level.name), level_manifest(level, problems)
    for schema in configuration.schemas:
        estimate = configuration.estimates.get(schema.name)
        yield ("schema", schema.name), schema_manifest(schema, problems, estimate)


def _with_metadata(document: dict[str, Any], metadata: Metadata | None) -> dict[str, Any]:
    """Return the document with the labels and annotations of its object."""
    if metadata is not None:
        said = {"labels": dict(metadata.labels), "annotations": dict(metadata.annotations)}
        document["metadata"] |= {key: texts for key, texts in said.items() if texts}
    return document


def _warn_of_settings(settings: ServerSettings, problems: Problems) -> None:
    """Warn if there are settings of the server: v1 can't express them."""
    plain = settle_slow_clients(
        ServerSettings(defaults=settings.defaults, backstops=settings.backstops, resolver=settings.resolver)
    )
    if settings != plain:
        rule, hint = "v1 can't express the server's settings", "Keep the Server document"
        problems.warn(Place("<server>"), rule, hint=hint)
