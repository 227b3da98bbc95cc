"""A FastAPI app with many tenants, JWTs for people and API keys for machines: see README.md."""
