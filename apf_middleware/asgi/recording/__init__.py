"""Recordings of the traffic of a running server, without the names of its callers."""

from apf_middleware.asgi.recording.disguise import Disguise
from apf_middleware.asgi.recording.needed_facts import NeededFacts
from apf_middleware.asgi.recording.recorder import Recorder, RecordingSettings

__all__ = ["Disguise", "NeededFacts", "Recorder", "RecordingSettings"]
