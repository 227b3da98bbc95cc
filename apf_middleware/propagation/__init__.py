"""What requests bring with them in headers and pass on with the requests that they cause: deadlines and criticality."""

__all__: list[str] = []
