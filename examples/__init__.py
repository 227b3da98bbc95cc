"""Examples that run: ``python -m examples.NAME``."""
