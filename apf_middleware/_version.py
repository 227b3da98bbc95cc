"""The version of the package, for every module of it: a module of its own imports nothing."""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
