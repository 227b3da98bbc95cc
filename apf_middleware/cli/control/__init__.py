"""Operating servers that run: workers and how they are asked, their answers as one, and what is shown of them."""

__all__: list[str] = []
