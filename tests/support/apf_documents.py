"""A schema of apf/v1."""

from apf_middleware.classification import FlowSchema
from apf_middleware.config import load_text

__all__ = ["SCHEMA", "schema"]

SCHEMA = """\
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec:
  level: exempt
  precedence: 10
  distinguisher: {source: user}
  rules:
  - subjects:
    - user: alice
    httpRules:
    - methods: [GET]
      paths: [/a]
      hosts: [example.com]
      headers:
      - {name: X-A, values: [b]}
"""


def schema(text: str) -> FlowSchema:
    [found] = [one for one in load_text(text).schemas if one.name == "s"]
    return found
