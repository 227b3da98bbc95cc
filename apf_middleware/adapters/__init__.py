"""Gates for what people really use: connection pools, a shared Redis, hosts that are called, circuit breakers.

Each is a module of its own, imported by whoever needs it, because each needs a library that others don't have:

==============  ==============================================  =================
`sqlalchemy`    the connections of an engine's pool             ``[sqlalchemy]``
`asyncpg`       the connections of a pool                       ``[asyncpg]``
`redis`         rates, quotas and capacities that servers share ``[redis]``
`httpx`         so many requests to each host at a time         ``[httpx]``
`purgatory`     a circuit breaker of an asynchronous app        ``[breakers]``
`pybreaker`     a circuit breaker of threads                    ``[breakers]``
==============  ==============================================  =================
"""

__all__: list[str] = []
