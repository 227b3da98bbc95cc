"""API Priority and Fairness for Python web servers."""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
