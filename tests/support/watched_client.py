"""The wait of a request that is never seated."""

__all__ = ["WatchedClient"]


class WatchedClient:
    """The waiter of a request, as `RequestBody` sees it; it notes whether the client has hung up."""

    has_gone = False

    def wake(self) -> None:
        raise AssertionError("it gets no seats")

    def hang_up(self) -> None:
        self.has_gone = True
