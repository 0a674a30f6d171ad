"""Addresses of stores: what is in them, and what is refused without showing it."""

import pytest

from gateway.config.store.address import address_problem, parse_address, with_password


@pytest.mark.parametrize(
    ("url", "nodes", "tls", "login", "shown"),
    [
        ("redis://h", (("h", 6379),), False, (None, None), "redis://h"),
        ("rediss://u:p%40%2Fw@h:1/2", (("h", 1),), True, ("u", "p@/w"), "rediss://***@h:1/2"),
        ("redis://:secret@[::1]:7/0", (("::1", 7),), False, (None, "secret"), "redis://***@[::1]:7/0"),
        ("redis:///3", (("localhost", 6379),), False, (None, None), "redis:///3"),
        ("redis://:7/3", (("localhost", 7),), False, (None, None), "redis://:7/3"),
        ("redis+cluster://h", (("h", 6379),), False, (None, None), "redis+cluster://h"),
        ("redis+cluster://h:1,10.0.0.2:2/", (("h", 1), ("10.0.0.2", 2)), False, (None, None), None),
        ("rediss+cluster://u:p%40w@h:1,[::1]:2", (("h", 1), ("::1", 2)), True, ("u", "p@w"), None),
        (
            "rediss+sentinel://u:secret@a,b:2/main/4",
            (("a", 26379), ("b", 2)),
            True,
            ("u", "secret"),
            "rediss+sentinel://***@a,b:2/main/4",
        ),
    ],
)
def test_nodes_and_login(
    url: str, nodes: object, tls: bool, login: tuple[str | None, str | None], shown: str | None
) -> None:
    address = parse_address(url)
    assert (address.nodes, address.tls) == (nodes, tls)
    assert (address.username, address.password) == login
    assert shown in (None, address.shown)
    assert login[1] is None or login[1] not in repr(address)


def test_a_socket() -> None:
    address = parse_address("unix://u:secret@/run/a%20b.sock?db=3")
    assert (address.path, address.database, address.username, address.password) == ("/run/a b.sock", 3, "u", "secret")
    assert address.shown == "unix://***@/run/a%20b.sock"
    assert parse_address("unix:///run/x@y.sock").path == "/run/x@y.sock"


def test_databases_and_services() -> None:
    assert parse_address("redis://h/15").database == parse_address("redis://h?db=15").database == 15
    assert parse_address("redis://h/1?db=1").database == 1
    address = parse_address("redis+sentinel://a/main?sentinel_username=w&sentinel_password=se%40cret&db=2")
    assert (address.service, address.database) == ("main", 2)
    assert (address.sentinel_username, address.sentinel_password) == ("w", "se@cret")
    assert not address.options
    assert "se@cret" not in repr(address) + address.shown
    assert parse_address("redis+sentinel://a/main/").database == 0


def test_options_have_their_types() -> None:
    address = parse_address(
        "rediss://h/0?ssl_cert_reqs=none&ssl_check_hostname=no&ssl_ca_certs=%2Fca.pem&socket_keepalive=true"
        "&health_check_interval=7&client_name=penstock&protocol=2&password=hidden"
    )
    assert address.options == {
        "ssl_cert_reqs": "none",
        "ssl_check_hostname": False,
        "ssl_ca_certs": "/ca.pem",
        "socket_keepalive": True,
        "health_check_interval": 7,
        "client_name": "penstock",
        "protocol": 2,
    }
    assert address.password == "hidden"
    assert "hidden" not in address.shown


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://h?ssl_ca_certs=/ca.pem", "the option ssl_ca_certs needs TLS"),
        ("rediss://h?ssl_ca_cert=/ca.pem", "unknown option ssl_ca_cert; did you mean ssl_ca_certs?"),
        ("redis://h?max_connections=3", "unknown option max_connections; known here: "),
        ("redis://h?decode_responses=true", "unknown option decode_responses"),
        ("unix:///s?socket_keepalive=1", "unknown option socket_keepalive"),
        ("redis+cluster://h?x=y", "unknown option x"),
        ("redis+cluster://h?db=1", "unknown option db"),
        ("redis+sentinel://h/s?x=y", "unknown option x"),
        ("redis://h?sentinel_password=secret", "the option sentinel_password needs redis+sentinel://"),
        ("redis://h?db=one", "the option db is a number"),
        ("redis://h?db=", "the option db is without a value"),
        ("redis://h?db=1&db=2", "the option db is given twice"),
        ("redis://h/1?db=2", "another database"),
        ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs is none or optional or required"),
        ("rediss://h?ssl_check_hostname=maybe", "ssl_check_hostname is true or false"),
        ("redis://h?protocol=4", "protocol is 2 or 3"),
        ("redis://h/abc", "a database is a number"),
        ("redis://h/1/2", "a database is a number"),
        ("redis://h/-1", "a database is a number"),
        ("redis://h:0", "port 0"),
        ("redis://h:secret", "a port is a number"),
        ("redis://a,b", "redis+sentinel://"),
        ("redis://:se/cret@h", "%2F"),
        ("redis://:secret?x@h", "%3F"),
        ("redis://:secret#x@h", "%23"),
        ("redis://:sec ret@h", "%20"),
        ("unix://relative", "absolute path"),
        ("redis+cluster://secret@h:x", "expected redis+cluster://HOST:PORT,HOST:PORT"),
        ("redis+cluster://h:1/3", "has one database"),
        ("redis+sentinel://h", "the name of the service is missing"),
        ("redis+sentinel://h,,i/s", "expected redis+sentinel://HOST:PORT,HOST:PORT/SERVICE"),
        ("redis+sentinel://h/s/x", "a database is a number"),
        ("http://u:secret@h", "expected an address that starts with redis://"),
        ("secret", "expected an address"),
        ("", "expected an address"),
    ],
)
def test_what_is_refused_is_named_and_not_shown(url: str, said: str) -> None:
    problem = address_problem(url)
    assert said in problem
    assert not any(part in problem for part in ("secret", "se/cret", "cret@"))


@pytest.mark.parametrize("rest", ["", "h:x", "h:0", "h:70000", "h,", ",h", ":1", "h?a=b", "h#a", "[::1"])
def test_what_is_no_list_of_nodes(rest: str) -> None:
    assert address_problem(f"redis+cluster://{rest}")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h:1/2", "redis://:p%40%2F@h:1/2"),
        ("redis://u@h", "redis://u:p%40%2F@h"),
        ("unix:///s?db=1", "unix://:p%40%2F@/s?db=1"),
        ("redis+sentinel://u@a,b/s", "redis+sentinel://u:p%40%2F@a,b/s"),
    ],
)
def test_a_password_from_elsewhere(url: str, expected: str) -> None:
    assert with_password(url, "p@/") == expected
    assert parse_address(expected).password == "p@/"
