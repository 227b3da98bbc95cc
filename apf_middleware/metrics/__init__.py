"""What happened, in numbers: plain counters that are kept where the facts happen, and Prometheus' view of them."""

__all__: list[str] = []
