"""Fleets in virtual time: the production code of members and allocator, and a network that loses messages."""

from apf_middleware.simulation.fleet.fleet import SimulatedFleet
from apf_middleware.simulation.fleet.layouts import LAYOUTS, layout

__all__ = ["LAYOUTS", "SimulatedFleet", "layout"]
