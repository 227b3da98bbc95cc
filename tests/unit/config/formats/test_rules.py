"""Rules of apf/v1."""

from apf_middleware.classification.rules import (
    Conjunction,
    GroupSubject,
    HttpRule,
    NonResourceRule,
    Operator,
    ResourceRule,
    Rule,
    ServiceAccountSubject,
    UserSubject,
    ValueMatch,
)
from tests.support.apf_documents import schema


def test_rules_have_subjects_and_requests() -> None:
    text = """\
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: s}
spec:
  level: exempt
  rules:
  - subjects:
    - {user: alice}
    - {group: staff}
    - {serviceAccount: {namespace: ns, name: "*"}}
    resourceRules:
    - {verbs: [get], apiGroups: [""], resources: [orders], namespaces: ["*"]}
    nonResourceRules:
    - {verbs: ["*"], nonResourceURLs: [/x/*]}
  - httpRules:
    - methods: [GET, HEAD]
      paths: ["/tenants/{tenant}/*", /*]
      hosts: ["*.example.com"]
      headers: [{name: X-Plan, values: [free]}, {name: X-Debug, absent: true}]
      query: [{name: q, pattern: "[a-z]+"}]
  match:
  - and:
    - equals: {field: path, value: /y}
"""
    read = schema(text)
    subjects = (UserSubject("alice"), GroupSubject("staff"), ServiceAccountSubject("ns", "*"))
    http = HttpRule(
        ("GET", "HEAD"),
        ("/tenants/{tenant}/*", "/*"),
        ("*.example.com",),
        (ValueMatch("x-plan", ("free",)), ValueMatch("x-debug", absent=True)),
        (ValueMatch("q", pattern="[a-z]+"),),
    )

    assert read.precedence == 1000
    assert read.rules[:2] == (
        Rule(subjects, (ResourceRule(("get",), ("",), ("orders",), ("*",)),), (NonResourceRule(("*",), ("/x/*",)),)),
        Rule((UserSubject("*"),), http_rules=(http,)),
    )
    assert isinstance(read.rules[2], Conjunction)
    assert read.rules[2].tests[0].operator is Operator.EQUALS
