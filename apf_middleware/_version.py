"""The version of the package, in a module that every other one can import because it imports nothing itself."""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
