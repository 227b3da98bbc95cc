"""A member of a fleet at run time: what it reports (`usage`), what it may use (`member`), and how messages travel."""

__all__: list[str] = []
