"""Litestar behind the middleware: see README.md."""
