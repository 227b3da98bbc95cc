"""A FastAPI app whose requests wait for a database with two connections, and through its outages: see README.md."""
