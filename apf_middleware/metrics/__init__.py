"""Prometheus metrics, made from the counters of the runtime.

The runtime counts (`tally`, `apf_middleware.counters`) without knowing Prometheus. A scrape takes a reading of the
counters and makes the metrics from it: for one process (`collector`), or in files that several workers share
(`multiprocess`).
"""

from apf_middleware.metrics.collector import APFCollector, require_prefix
from apf_middleware.metrics.exposition import compress, render
from apf_middleware.metrics.multiprocess import DIRECTORY_VARIABLE, DirectoryCollector, Publisher, scrape
from apf_middleware.metrics.reading import AdjustmentReading, GateReading, LevelReading, SchemaReading, ServerReading
from apf_middleware.metrics.tally import Tally

__all__ = [
    "DIRECTORY_VARIABLE",
    "APFCollector",
    "AdjustmentReading",
    "DirectoryCollector",
    "GateReading",
    "LevelReading",
    "Publisher",
    "SchemaReading",
    "ServerReading",
    "Tally",
    "compress",
    "render",
    "require_prefix",
    "scrape",
]
