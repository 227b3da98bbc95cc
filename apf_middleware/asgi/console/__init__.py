"""The console: a page for browsers that shows what a server is doing, and what an operator can do about it."""

__all__: list[str] = []
