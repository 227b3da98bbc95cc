"""The facts of a request, and the groups that follow from authentication."""

from apf_middleware.classification import ANONYMOUS, Identity
from apf_middleware.classification.digest import authenticated_groups, identity_of, resolve_method


def test_an_authenticated_user_has_each_group_once_and_that_of_all_authenticated_ones() -> None:
    assert identity_of("alice", ("a", "b", "a")) == Identity("alice", ("a", "b", "system:authenticated"))
    assert authenticated_groups(["system:authenticated", "a"]) == ("system:authenticated", "a")


def test_a_user_without_a_name_is_the_anonymous_one() -> None:
    assert identity_of("") == identity_of(ANONYMOUS.name) == ANONYMOUS
    assert identity_of("", ("a",)) == Identity(ANONYMOUS.name, ("a", "system:unauthenticated"))


def test_the_verb_of_a_request_without_a_resource_is_its_method() -> None:
    assert [resolve_method(method).verb for method in ("GET", "PURGE")] == ["get", "purge"]
