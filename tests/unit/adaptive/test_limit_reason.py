"""The reasons of decisions."""

from apf_middleware.adaptive import LimitReason


def test_reasons_are_labels() -> None:
    assert f"{LimitReason.REFUSED}" == "cut-refused"
    assert all(one.replace("-", "").isalpha() and one.islower() for one in LimitReason)
    assert len(set(LimitReason)) == len(LimitReason.__members__)
