"""Documents with labels and annotations."""

__all__ = ["LABELLED"]

LABELLED = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1beta3
kind: PriorityLevelConfiguration
metadata:
  name: reports
  labels: {app.kubernetes.io/part-of: shop, "number": "1"}
  annotations:
    include.release.openshift.io/ibm-cloud-managed: "true"
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares: ""
spec: {type: Limited, limited: {nominalConcurrencyShares: 0, limitResponse: {type: Reject}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: reports, annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}, uid: a, generation: 3}
spec: {priorityLevelConfiguration: {name: reports}, rules: []}
---
apiVersion: apf/v1
kind: Server
metadata: {labels: {team: platform}}
spec: {defaults: none, resolver: kubernetes}
"""
