"""Several workers, one set of metrics: see README.md."""
