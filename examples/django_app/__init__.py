"""Django behind the middleware: see README.md."""
