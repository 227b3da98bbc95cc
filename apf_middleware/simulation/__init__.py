"""The simulator: it sends scenarios and recorded traffic, in virtual time, to the code that runs in production."""

from apf_middleware.simulation.results import LevelResult, Result, TenantResult, Window
from apf_middleware.simulation.run import simulate
from apf_middleware.simulation.variants import VARIANTS, variant

__all__ = ["VARIANTS", "LevelResult", "Result", "TenantResult", "Window", "simulate", "variant"]
