"""YAML in, domain objects out: the only room that knows pydantic and yaml."""
