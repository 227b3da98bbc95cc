"""Gates for connection pools, limits in a shared Redis, hosts that are called, and circuit breakers.

Each has a module of its own, which no other module imports, because each needs a library that not all apps have:

==============  ==============================================  =================
`sqlalchemy`    the connections of an engine's pool             ``[sqlalchemy]``
`asyncpg`       the connections of a pool                       ``[asyncpg]``
`redis`         rates, quotas and capacities that servers share ``[redis]``
`httpx`         a limit on concurrent requests to each host     ``[httpx]``
`purgatory`     a circuit breaker of an asynchronous app        ``[breakers]``
`pybreaker`     a circuit breaker of threads                    ``[breakers]``
==============  ==============================================  =================
"""

__all__: list[str] = []
