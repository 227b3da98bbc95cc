"""A FastAPI app with SQLAlchemy whose requests wait for a connection in their queues: see README.md."""
