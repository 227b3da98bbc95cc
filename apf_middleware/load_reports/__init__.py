"""How busy this server is, for balancers: load reports in the format of ORCA, and readiness.

Everything here is pure: `asgi.load_reports` reads the numbers and answers requests.
"""

__all__: list[str] = []
