"""Configuration: YAML documents in three formats, read to domain objects, checked, merged and written again.

The only package that depends on pydantic and PyYAML.
"""

from apf_middleware.config.emit import convert, emit
from apf_middleware.config.load import Reading, load, load_text, read, read_source
from apf_middleware.config.objects import Configuration, Level, Queuing
from apf_middleware.config.problems import ConfigurationError, Place, Problem, Severity
from apf_middleware.config.server import Route, ServerSettings

__all__ = [
    "Configuration",
    "ConfigurationError",
    "Level",
    "Place",
    "Problem",
    "Queuing",
    "Reading",
    "Route",
    "ServerSettings",
    "Severity",
    "convert",
    "emit",
    "load",
    "load_text",
    "read",
    "read_source",
]
