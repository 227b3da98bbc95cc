"""The disciplines, by the names that configuration and command line use."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from apf_middleware.fairqueuing.disciplines.base import Discipline
from apf_middleware.fairqueuing.disciplines.equal_serial import EqualSerial
from apf_middleware.fairqueuing.disciplines.max_min_concurrent import MaxMinConcurrent
from apf_middleware.fairqueuing.disciplines.max_min_serial import MaxMinSerial
from apf_middleware.fairqueuing.disciplines.upstream_equal_serial import UpstreamEqualSerial

__all__ = ["DISCIPLINES", "Discipline", "EqualSerial", "MaxMinConcurrent", "MaxMinSerial", "UpstreamEqualSerial"]

DISCIPLINES: Final[Mapping[str, type[Discipline[Any]]]] = MappingProxyType(
    {discipline.name: discipline for discipline in (EqualSerial, MaxMinSerial, MaxMinConcurrent)}
)
