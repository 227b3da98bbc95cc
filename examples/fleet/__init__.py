"""Several hosts, one budget of seats: see README.md."""
