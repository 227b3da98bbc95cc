"""Prometheus metrics, made from the counters of the runtime.

The runtime counts (`schema_counters`, `apf_middleware.counters`), independently of Prometheus. A scrape reads these
counters and makes the metrics: for one process (`collector`), or in files that several workers share (`multiprocess`).
"""

from apf_middleware.metrics.collector import APFCollector
from apf_middleware.metrics.exposition import accepts_gzip, compress, preferred_format, render
from apf_middleware.metrics.multiprocess import DIRECTORY_VARIABLE, DirectoryCollector, Publisher, scrape
from apf_middleware.metrics.reading import (
    AdaptiveReading,
    AdjustmentReading,
    ElasticReading,
    EventLoopReading,
    FleetReading,
    GateReading,
    LevelReading,
    PredictionReading,
    SchemaReading,
    ServerReading,
    ShadowReading,
)
from apf_middleware.metrics.renderings import Rendering, Renderings
from apf_middleware.metrics.schema_counters import SchemaCounters

__all__ = [
    "DIRECTORY_VARIABLE",
    "APFCollector",
    "AdaptiveReading",
    "AdjustmentReading",
    "DirectoryCollector",
    "ElasticReading",
    "EventLoopReading",
    "FleetReading",
    "GateReading",
    "LevelReading",
    "PredictionReading",
    "Publisher",
    "Rendering",
    "Renderings",
    "SchemaCounters",
    "SchemaReading",
    "ServerReading",
    "ShadowReading",
    "accepts_gzip",
    "compress",
    "preferred_format",
    "render",
    "scrape",
]
