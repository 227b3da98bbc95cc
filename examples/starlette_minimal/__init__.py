"""Starlette and one line: see README.md."""
