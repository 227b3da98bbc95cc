"""Distinguishers, compiled to functions from a request to its flow within a schema.

A value that the request doesn't have is the empty string, and so is a value that the regex of a transformation doesn't
match. An address is cut to its network, so that one household or one rented server is one flow, even if it uses many
addresses; a value that isn't an address is used as it is. An IPv4 address written as IPv6 is the IPv4 address.
"""

import re
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.classification.digest import RequestDigest
from apf_middleware.classification.paths import parse_template
from apf_middleware.classification.rules import Rule
from apf_middleware.classification.schema import Distinguisher, FlowSchema, Source
from apf_middleware.exceptions import InvalidValueError

__all__ = ["ADDRESSES_REMEMBERED", "compile_distinguisher", "depends_only_on_identity_and_resource", "network_of"]

ADDRESSES_REMEMBERED: Final = 4096
"""The approximate number of addresses with cached networks."""

_LONGEST_ADDRESS: Final = 64  # characters of an address that is cached; an IPv6 address with a zone has fewer

_USUAL_PREFIX: Final = 24  # of IPv4
_OCTETS: Final = {str(number): number for number in range(256)}

Reader = Callable[[RequestDigest], str]


def compile_distinguisher(schema: FlowSchema) -> Reader:
    """Return the function from a request to the flow's distinguisher.

    A path parameter is taken from the request's route, or else from the first path template in the schema's HTTP rules
    that contains the parameter and matches the path.
    """
    if schema.distinguisher is None:
        return lambda _: ""
    read = _reader(schema.distinguisher, schema)
    if schema.distinguisher.transform is None:
        return read
    match = re.compile(schema.distinguisher.transform).fullmatch

    def transformed(digest: RequestDigest) -> str:
        found = match(read(digest))
        return "" if found is None else found[1] or ""  # a group that did not take part is None

    return transformed


def depends_only_on_identity_and_resource(distinguisher: Distinguisher | None) -> bool:
    """Return whether requests by the same identity about the same resource always belong to one flow."""
    return distinguisher is None or distinguisher.source in {Source.USER, Source.GROUP, Source.NAMESPACE}


def network_of(address: str, prefix_v4: int, prefix_v6: int) -> str:
    """Return the network of an IP address, such as ``192.0.2.0/24``; any other text is returned unchanged."""
    octets = address.split(".", 4)
    if len(octets) == 4:  # takes a fraction of the time of the code below; new clients arrive all the time
        a, b, c, d = octets
        if a in _OCTETS and b in _OCTETS and c in _OCTETS and d in _OCTETS:
            if prefix_v4 == _USUAL_PREFIX:
                return f"{a}.{b}.{c}.0/{_USUAL_PREFIX}"
            bits = _OCTETS[a] << 24 | _OCTETS[b] << 16 | _OCTETS[c] << 8 | _OCTETS[d]
            bits &= 0xFFFFFFFF << (32 - prefix_v4)
            return f"{bits >> 24}.{bits >> 16 & 255}.{bits >> 8 & 255}.{bits & 255}/{prefix_v4}"
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        parsed = parsed.ipv4_mapped or parsed
    return str(ip_network((parsed, prefix_v4 if parsed.version == 4 else prefix_v6), strict=False))


def _reader(distinguisher: Distinguisher, schema: FlowSchema) -> Reader:
    argument, source = distinguisher.argument, distinguisher.source
    if source is Source.GROUP:
        return _group_reader(distinguisher.groups)
    if source is Source.PATH_PARAMETER:
        return _path_parameter_reader(argument, schema)
    if source is Source.CLIENT_ADDRESS:
        return _address_reader(distinguisher.prefix_v4, distinguisher.prefix_v6)
    if source is Source.CALLABLE:
        return _checked(distinguisher.function, schema.name)
    header = argument.lower()
    plain: dict[Source, Reader] = {
        Source.USER: lambda digest: digest.identity.name,
        Source.NAMESPACE: lambda digest: "" if digest.resource is None else digest.resource.namespace,
        Source.HEADER: lambda digest: digest.headers.get(header, ""),
        Source.QUERY: lambda digest: digest.query.get(argument, ""),
    }
    return plain[source]


def _group_reader(groups: tuple[str, ...]) -> Reader:
    exact = frozenset(group for group in groups if group[-1] != "*")
    beginnings = tuple(group[:-1] for group in groups if group[-1] == "*")

    def read(digest: RequestDigest) -> str:
        for group in digest.identity.groups:
            if group in exact or group.startswith(beginnings):
                return group
        return ""

    return read


def _path_parameter_reader(name: str, schema: FlowSchema) -> Reader:
    templates = [
        parse_template(template)
        for rule in schema.rules
        if isinstance(rule, Rule)
        for http in rule.http_rules
        for template in http.paths
    ]
    matches = [re.compile(template.regex(name)).fullmatch for template in templates if name in template.parameters]

    def read(digest: RequestDigest) -> str:
        value = digest.path_parameters.get(name)
        if value is not None:
            return value
        found = next((found for match in matches if (found := match(digest.path))), None)
        return "" if found is None else found[1]

    return read


def _address_reader(prefix_v4: int, prefix_v6: int) -> Reader:
    seen: BoundedCache[str, str] = BoundedCache(ADDRESSES_REMEMBERED)

    def read(digest: RequestDigest) -> str:
        address = digest.client_address
        network = seen.get(address)
        if network is None:
            network = network_of(address, prefix_v4, prefix_v6)
            # Proxies may pass on any text as an address; a long text isn't one.
            if len(address) <= _LONGEST_ADDRESS:
                seen.put(address, network)
        return network

    return read


def _checked(function: Callable[[RequestDigest], object] | None, schema: str) -> Reader:
    def read(digest: RequestDigest) -> str:
        flow = function(digest) if function is not None else None
        if not isinstance(flow, str):
            raise InvalidValueError(
                f"distinguisher of the schema {schema!r}", flow, "its callable must return a string"
            )
        return flow

    return read
