"""The documentation's site: `make docs` builds it without a warning, and every link in it leads somewhere."""
