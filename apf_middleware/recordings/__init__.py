"""Recordings of traffic: requests as rows of JSON, what stands before and after them, and the files they are in."""

from apf_middleware.recordings.files import MOST_ROWS_HELD, damage_errors, open_recording, require_compression
from apf_middleware.recordings.lines import UnreadableLineError, request_line
from apf_middleware.recordings.marks import Footer, Header, parse_line
from apf_middleware.recordings.pseudonyms import Pseudonyms
from apf_middleware.recordings.request import RecordedRequest

__all__ = [
    "MOST_ROWS_HELD",
    "Footer",
    "Header",
    "Pseudonyms",
    "RecordedRequest",
    "UnreadableLineError",
    "damage_errors",
    "open_recording",
    "parse_line",
    "request_line",
    "require_compression",
]
