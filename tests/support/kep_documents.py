"""A level and a schema of the proposal's format."""

__all__ = ["LEVEL", "SCHEMA"]

SCHEMA = """\
kind: FlowSchema
meta:
  name: s
spec:
  matchingPriority: 500
  requestPriority:
    name: l
  flowDistinguisher:
    source: user
  match:
  - and:
    - equals: {field: user, value: alice}
"""

LEVEL = """\
kind: RequestPriority
meta:
  name: l
spec:
  catchAll: true
  assuredConcurrencyShares: 10
  queues: 8
  handSize: 2
  queueLengthLimit: 5
"""
