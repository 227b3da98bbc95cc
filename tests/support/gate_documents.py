"""A server with gates in each place that can name one."""

__all__ = ["SERVER"]

SERVER = """\
apiVersion: apf/v1
kind: Server
spec:
  defaults: none
  gates:
  - name: db
    capacity: 20
    cost: 2
    onError: reject
    maxParked: 7
    release: headers
    status: 502
    per: level
  - {name: quota, tokens: {rate: 0.5, burst: 3}, key: {source: header, name: X-Shard}, cost: seats}
  - {name: mail, capacity: 0}
  routes:
  - {path: /reports/*, resource: reports, gates: [mail, db]}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: crowd}
spec: {shares: 5, gates: [db, quota]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: orders}
spec: {level: crowd, gates: [quota], rules: [{httpRules: [{}]}]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: probes}
spec: {level: exempt, precedence: 2, gates: [quota], rules: [{httpRules: [{paths: [/health]}]}]}
"""
