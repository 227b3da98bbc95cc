"""What happened, in numbers: plain counters that are kept where the facts happen, and Prometheus' view of them.

The counters (`tally`) know nothing of Prometheus. When somebody asks, the runtime makes a picture of them (`picture`),
and from that the metrics are made: for a scrape of one process (`collector`), or into files that several workers share
(`multiprocess`).
"""

from apf_middleware.metrics.collector import APFCollector, require_prefix
from apf_middleware.metrics.exposition import compress, render
from apf_middleware.metrics.multiprocess import DIRECTORY_VARIABLE, DirectoryCollector, Publisher, scrape
from apf_middleware.metrics.picture import DemandPicture, GatePicture, LevelPicture, SchemaPicture, ServerPicture
from apf_middleware.metrics.tally import Histogram, Occupancy, Tally

__all__ = [
    "DIRECTORY_VARIABLE",
    "APFCollector",
    "DemandPicture",
    "DirectoryCollector",
    "GatePicture",
    "Histogram",
    "LevelPicture",
    "Occupancy",
    "Publisher",
    "SchemaPicture",
    "ServerPicture",
    "Tally",
    "compress",
    "render",
    "require_prefix",
    "scrape",
]
