"""What watches a server that the middleware protects: a Grafana dashboard, Prometheus rules, and a Compose file.

The dashboard is written as Python (`board`), because fifty panels by hand drift apart; `build` turns it into the JSON
that stands beside it, for people who only want to import that.
"""
