"""Lines of access logs, as nginx 1.22 and the documentation of Envoy and Apache have them."""

from datetime import UTC, datetime

import pytest

from apf_middleware.recordings import RecordedRequest, UnreadableLineError
from apf_middleware.recordings.lines import nanoseconds_of
from apf_middleware.simulation.access_logs import (
    NoRequestError,
    is_access_log,
    parse_access_log,
    parse_log_line,
)

MS = 10**6
SECOND = 10**9
NGINX = '127.0.0.1 - alice [24/Nov/2026:07:29:55 +0000] "GET /reports/7?x=1 HTTP/1.1" 200 2 "-" "curl/7.88.1"'
ODD = '127.0.0.1 - - [24/Nov/2026:07:29:56 +0000] "GET /retried/8 HTTP/1.1" 200 2 "-" "odd \\x22agent\\x22 \\x5Cx"'
STATIC = '127.0.0.1 - - [24/Nov/2026:07:29:56 +0000] "GET /static HTTP/1.1" 204 0 "-" "curl/7.88.1"'
ENVOY = (
    '[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28, 10.0.0.1"'
    ' "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"'
)
ISTIO = (
    '[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "-" "curl/7.73.0"'
    ' "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854'
    " 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default"
)
JSON = {
    "time_iso8601": "2026-11-24T07:29:55+00:00",
    "msec": "1795505395.994",
    "remote_addr": "127.0.0.1",
    "remote_user": "alice",
    "request": "GET /reports/7?x=1 HTTP/1.1",
    "request_method": "GET",
    "request_uri": "/reports/7?x=1",
    "host": "shop.test",
    "status": "200",
    "body_bytes_sent": "2",
    "request_time": "0.159",
    "upstream_response_time": "0.158",
    "http_user_agent": "curl/7.88.1",
}
ENVOY_JSON = {
    "start_time": "2020-11-25T21:26:18.409Z",
    "method": "GET",
    "path": "/status/418",
    "protocol": "HTTP/1.1",
    "response_code": 418,
    "response_flags": "-",
    "duration": 30,
    "upstream_service_time": "21",
    "x_forwarded_for": None,
    "downstream_remote_address": "10.44.1.23:37652",
    "authority": "httpbin:8000",
    "bytes_sent": 135,
}


def at(*when: int) -> int:
    return nanoseconds_of(datetime(*when, tzinfo=UTC))  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("line", "duration_ms"),
    [
        (f"{NGINX} 0.159", 159),
        (f"{NGINX} 0.159 0.158", 158),
        (f'{NGINX} "0.159"', 159),
        (f'{NGINX} "0.159" "0.158"', 158),
        (f'{NGINX} rt=0.159 uct="0.000" uht="0.158" urt="0.158"', 158),
        (f"{NGINX} request_time=0.159 upstream_response_time=0.158", 158),
        (f"{NGINX} rt=0.159", 159),
        (f"{ODD} 0.133 0.000, 0.132", 132),
        (f'{ODD} rt=0.133 uct="-, 0.000" uht="-, 0.133" urt="0.000, 0.132"', 132),
        (f"{ODD} 0.133 0.001 : 0.132", 132),
        (f"{ODD} 0.133 -, 0.132", 132),
        (f"{NGINX} 159000", 159),
        (f"{NGINX} 345 0.159 [shop-web-80] [] 10.0.0.2:8080 512 0.158 200 0123456789abcdef", 158),
        (f"{NGINX} 345 0.159 [shop] [] 10.0.0.2:80, 10.0.0.3:80 0, 512 0.000, 0.158 502, 200 0123456789abcdef", 158),
        (f"{NGINX} cache=MISS 0.159", 159),
        (f"{NGINX} rt=0.159 cache=MISS", 159),
        (f'{NGINX} rt=0.159 uct="0.001" uht="0.100"', 159),
        (f"{ODD} rt=0.133 urt=0.000, 0.132 cache=MISS", 132),
        (f"{ODD} rt=0.133, urt=-, 0.132", 132),
        (f'{NGINX} 0.159 "0.158"', 158),
        (f"{NGINX} took=0.159", 159),
        (f"{NGINX} 1.59e-1", 159),
    ],
)
def test_the_time_of_the_last_server_that_was_asked_counts(line: str, duration_ms: int) -> None:
    found = parse_log_line(f"{line}\n")

    assert found.duration_ns == duration_ms * MS
    assert (found.method, found.status, found.address) == ("GET", 200, "127.0.0.1")
    assert found.is_whole_second


def test_nginx_writes_when_a_request_has_ended_and_apache_when_it_came() -> None:
    ended = at(2026, 11, 24, 7, 29, 55)

    assert parse_log_line(f"{NGINX} 0.159").time_ns == ended - 159 * MS
    assert parse_log_line(f"{NGINX} 159000").time_ns == ended
    assert parse_log_line(f"{NGINX} 0.159").user == "alice"


@pytest.mark.parametrize(
    "line",
    [
        f"{STATIC} 0.000 -",
        f'{STATIC} rt=0.000 uct="-" uht="-" urt="-"',
        f"{STATIC} -",
        f"{STATIC} 345 0.000 [] [] - - - - 0123456789abcdef",
        '[2016-04-15T20:17:00.310Z] "- - -" 0 - 154 0 226 - "-" "-" "-" "-" "-"',
        '[2016-04-15T20:17:00.310Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"',
        '10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "\\x16\\x03\\x01" 400 150 "-" "-" 0.001',
        ENVOY.replace("226 100", "226 -"),
    ],
)
def test_what_never_reached_the_app_is_no_request(line: str) -> None:
    with pytest.raises(NoRequestError):
        parse_log_line(line)


def test_envoys_default_form() -> None:
    assert parse_log_line(ENVOY) == RecordedRequest(
        at(2016, 4, 15, 20, 17) + 310 * MS,
        100 * MS,
        method="POST",
        path="/api/v1/locations",
        host="locations",
        address="10.0.35.28",
        status=204,
    )
    found = parse_log_line(ISTIO)
    assert (found.duration_ns, found.path, found.host, found.address) == (MS, "/status/418", "httpbin:8000", "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('INFO:     127.0.0.1:53412 - "GET /reports/7 HTTP/1.1" 200 OK', "uvicorn's access log has neither times"),
        ('127.0.0.1:53412 - "GET / HTTP/1.1" 200', "record with apf record"),
        (NGINX, "a line must end with the duration of the request: with nginx add $request_time"),
        (f'{NGINX} "-"', "a line must end with the duration"),
        ("[nonsense]", "Envoy's default form"),
        ("nonsense", "common or combined"),
        (f"{NGINX} soon", "a line must end with the duration"),
        (f"{NGINX} {'9' * 400}.1", "a line must end with the duration"),
        (f"{NGINX} {'9' * 5000}", "a line must end with the duration"),
        (f"{NGINX} 1.2.3", "a line must end with the duration"),
        (f"{NGINX} \u0660.\u0661", "a line must end with the duration"),
        (f"{NGINX} 99999999.0", "its duration is 1e+08 seconds, but it must be less than 1e+07"),
        (f"{NGINX} 0.9e99", "its duration is 9e+98 seconds"),
        (ENVOY.replace("226 100", "226 99999999999"), "its duration is 1e+08 seconds"),
        (ENVOY.replace("226 100", f"226 {'9' * 5000}"), "Envoy's default form"),
        (ENVOY.replace("2016-04-15", "2016-99-15"), "must be ISO 8601"),
        (f"{NGINX} 1.0".replace("Nov", "Nov."), "must be like 10/Oct/2026"),
    ],
)
def test_lines_without_a_time_or_a_duration_are_refused_with_a_hint(line: str, said: str) -> None:
    with pytest.raises(UnreadableLineError) as caught:
        parse_log_line(line)

    assert said in str(caught.value)


def test_apache_may_write_the_virtual_host_first() -> None:
    found = parse_log_line(f"www.example.com:443 {NGINX} 159000")

    assert (found.host, found.address, found.user) == ("www.example.com", "127.0.0.1", "alice")
    assert parse_log_line(f"{NGINX.replace('127.0.0.1', '10.0.0.7:443')} 159000").address == "10.0.0.7:443"


def test_json_of_nginx() -> None:
    assert is_access_log(JSON)
    assert parse_access_log(JSON) == RecordedRequest(
        1_795_505_395_994 * MS - 159 * MS,
        158 * MS,
        user="alice",
        method="GET",
        path="/reports/7?x=1",
        host="shop.test",
        address="127.0.0.1",
        status=200,
    )
    without = {name: value for name, value in JSON.items() if name not in {"msec", "upstream_response_time"}}
    found = parse_access_log(without)
    assert (found.duration_ns, found.is_whole_second) == (159 * MS, True)
    assert found.time_ns == at(2026, 11, 24, 7, 29, 55) - 159 * MS


@pytest.mark.parametrize("name", ["msec", "time", "ts"])
@pytest.mark.parametrize("quoted", [True, False])
def test_nginx_writes_when_a_request_has_ended_in_any_field(name: str, quoted: bool) -> None:  # noqa: FBT001
    fields = {one: value for one, value in JSON.items() if one not in {"msec", "time_iso8601", "request_time"}}
    found = parse_access_log(fields | {name: "1795505395.500" if quoted else 1_795_505_395.5})

    assert (found.time_ns, found.duration_ns) == (1_795_505_395_342 * MS, 158 * MS)


@pytest.mark.parametrize("upstream", ["", "-"])
def test_json_about_a_request_that_nginx_has_answered_itself(upstream: str) -> None:
    with pytest.raises(NoRequestError):
        parse_access_log(JSON | {"upstream_response_time": upstream})


def test_json_of_envoy() -> None:
    assert parse_access_log(ENVOY_JSON) == RecordedRequest(
        at(2020, 11, 25, 21, 26, 18) + 409 * MS,
        21 * MS,
        method="GET",
        path="/status/418",
        host="httpbin:8000",
        address="10.44.1.23",
        status=418,
    )
    without = {name: value for name, value in ENVOY_JSON.items() if name != "upstream_service_time"}
    assert parse_access_log(without).duration_ns == 30 * MS, "Envoy's is in milliseconds"


def test_json_of_caddy() -> None:
    request = {"remote_ip": "10.0.0.9", "client_ip": "10.0.0.7", "method": "GET", "host": "shop.test", "uri": "/a?b"}
    fields = {
        "ts": 1_795_505_395.5,
        "request": request | {"headers": {"User-Agent": ["curl/7.88.1"]}},
        "user_id": "alice",
        "duration": 0.000929675,
        "status": 200,
    }
    assert is_access_log(fields)
    assert parse_access_log(fields) == RecordedRequest(
        1_795_505_395_500 * MS - 929_675,
        929_675,
        user="alice",
        path="/a?b",
        host="shop.test",
        address="10.0.0.7",
        status=200,
    )


def test_json_of_traefik() -> None:
    fields = {
        "StartUTC": "2026-11-24T07:29:55.5Z",
        "ClientHost": "10.0.0.7",
        "ClientUsername": "-",
        "RequestMethod": "GET",
        "RequestPath": "/a?b",
        "RequestHost": "shop.test",
        "Duration": 1_000_000,
        "OriginDuration": 900_000,
        "DownstreamStatus": 201,
        "time": "2026-11-24T07:29:56Z",
    }
    assert parse_access_log(fields) == RecordedRequest(
        at(2026, 11, 24, 7, 29, 55) + 500 * MS,
        900_000,
        path="/a?b",
        host="shop.test",
        address="10.0.0.7",
        status=201,
    )


@pytest.mark.parametrize(
    ("more", "time_ns", "duration_ns"),
    [
        ({"ts": 1_795_505_395.5, "latency_ms": 12.5}, 1_795_505_395_500 * MS, 12_500_000),
        ({"ts": 1_795_505_395_500, "elapsed": 0.25}, 1_795_505_395_500 * MS, 250 * MS),
        ({"@timestamp": "2026-11-24T07:29:55.5Z", "duration": 0.5}, at(2026, 11, 24, 7, 29, 55) + 500 * MS, 500 * MS),
        ({"time_local": "24/Nov/2026:07:29:55 +0000", "response_time": "1"}, at(2026, 11, 24, 7, 29, 55), SECOND),
        ({"ts": 1_795_505_395.5, "duration": 1.5e-05}, 1_795_505_395_500 * MS, 15_000),
        ({"ts": 1_795_505_395.5, "latency": "12ms"}, 1_795_505_395_500 * MS, 12 * MS),
        ({"ts": 1_795_505_395.5, "latency": "1.5µs"}, 1_795_505_395_500 * MS, 1_500),
        ({"ts": 1_795_505_395.5, "duration": "1m3.5s"}, 1_795_505_395_500 * MS, 63_500 * MS),
        ({"ts": 1_795_505_395.5, "latency": "unknown", "duration": 2}, 1_795_505_395_500 * MS, 2 * SECOND),
    ],
)
def test_other_usual_names(more: dict[str, object], time_ns: int, duration_ns: int) -> None:
    fields = {"verb": "GET", "url": "/a", "groups": ["staff"], "seats": 2} | more
    found = parse_access_log(fields)

    assert is_access_log(fields)
    assert (found.time_ns, found.duration_ns, found.path) == (time_ns, duration_ns, "/a")
    assert (found.groups, found.seats) == (("staff",), 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"request_time": "soon", "upstream_response_time": None}, ""),
        ({"request_time": None, "upstream_response_time": "x", "msec": None}, "there must be a duration"),
        ({"msec": None, "time_iso8601": "yesterday"}, "must be ISO 8601"),
        ({"msec": None, "time_iso8601": None}, "there must be a time: one of msec, start_time"),
        ({"msec": None, "time_iso8601": True}, "must be ISO 8601"),
        ({"msec": "9" * 400, "time_iso8601": None}, "there must be a time"),
        ({"msec": "9" * 15, "time_iso8601": None}, "time is"),
        ({"upstream_response_time": "x", "request_time": -2.5}, "there must be a duration, as a number"),
        ({"upstream_response_time": "x", "request_time": 1e400}, "there must be a duration, as a number"),
        ({"upstream_response_time": 10**8}, "its duration is 1e+08 seconds"),
        ({"remote_user": 7}, "user is 7, but it must be text"),
    ],
)
def test_wrong_values_in_json(change: dict[str, object], said: str) -> None:
    with pytest.raises(UnreadableLineError) as caught:
        parse_access_log(JSON | change)

    assert said in str(caught.value)


@pytest.mark.parametrize("address", ["[2001:db8::1]:443", "2001:db8::1", "2001:db8::1, 10.0.0.1"])
def test_addresses_have_no_port(address: str) -> None:
    assert parse_access_log(JSON | {"remote_addr": address}).address == "2001:db8::1"


def test_lines_of_recordings_are_no_access_logs() -> None:
    assert not is_access_log({"time": 1, "duration": 2, "user": "a", "method": "GET", "path": "/", "status": 200})
