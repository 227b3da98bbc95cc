"""The part of a configuration that can be tried."""

from apf_middleware.config import Configuration, load_text
from apf_middleware.runtime.shadow.followed import find_caveats, followed_part

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {{seats: 10, {spec}}}"
LEVEL = "\n---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: batch}}\nspec: {{shares: 10, {spec}}}"
ADAPTIVE = "apiVersion: apf/v1\nkind: Server\nspec: {seats: {adaptive: {min: 5, max: 40}}, defaults: web}"
PLAIN = load_text(SERVER.format(spec="defaults: web"))


def tried(server: str = "defaults: web", level: str = "") -> Configuration:
    return load_text(SERVER.format(spec=server) + (LEVEL.format(spec=level) if level else ""))


def test_gates_headroom_and_fleet_are_left_out() -> None:
    gated = "defaults: web, fleet: {}, gates: [{name: db, capacity: 1}], routes: [{path: /x, resource: x, gates: [db]}]"
    part = followed_part(tried(gated, "gates: [db], headroom: 20%"))

    assert not part.has_gates
    assert part.server.fleet is None
    assert part.levels["batch"].shares == tried(level="gates: []").levels["batch"].shares


def test_the_caveats_name_what_differs() -> None:
    [always] = find_caveats(PLAIN, PLAIN)
    assert "Durations are those" in always
    assert "Clients give up" in always
    assert find_caveats(PLAIN, PLAIN, classify_only=True) == ()

    function = "estimation: {default: {source: callable, callable: 'os:getcwd'}}"
    cases = {
        "Gates": tried("defaults: web, gates: [{name: db, capacity: 1}]"),
        "Elastic": tried(level="elastic: true"),
        "The number of seats": load_text(ADAPTIVE),
        "The fleet is left out": tried("defaults: web, fleet: {}"),
        "Estimates by functions": tried(f"defaults: web, {function}"),
        "Bodies and streams": tried("defaults: web, streams: {releaseAtStart: false}"),
        "Callers": tried("defaults: web, authentication: [{type: user}]"),
    }
    for words, configuration in cases.items():
        found = find_caveats(PLAIN, configuration)
        assert len(found) == 2
        assert any(one.startswith(words) for one in found)


def test_a_member_of_a_fleet_says_which_seats_the_shadow_has() -> None:
    assert "this member" in find_caveats(tried("defaults: web, fleet: {}"), PLAIN)[-1]
