"""Operation of running servers: requests to their workers, and their merged answers."""

__all__: list[str] = []
