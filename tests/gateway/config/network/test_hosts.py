"""Hosts to listen on."""

import socket

import pytest

from gateway.config.network.hosts import host_problems, local_url, plain_host, resolved_host


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "0.0.0.0",
        "::",
        "::1",
        "fe80::1",
        "::ffff:127.0.0.1",
        "localhost",
        "localhost.",
        "gw-1.example",
        "a_b",
    ],
)
def test_addresses_and_names_can_be_listened_on(host: str) -> None:
    assert list(host_problems(host, "listen.host")) == []


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("unix:/run/gw.sock", "not on unix sockets"),
        ("unix:gw.sock", "not on unix sockets"),
        ("/run/gw.sock", "not on unix sockets"),
        ("http://127.0.0.1", "not on unix sockets or URLs"),
        ("127.0.0.1:8080", "the port is a field of its own"),
        ("localhost:8080", "the port is a field of its own"),
        ("[::1]:8080", "the port is a field of its own"),
        ("[::1", "expected an IP address or a host name"),
        ("fe80::1%eth0", "expected an IP address or a host name"),
        ("256.0.0.1", "expected an IP address or a host name"),
        ("127.1", "expected an IP address or a host name"),
        ("010.0.0.1", "expected an IP address or a host name"),
        ("*", "expected an IP address or a host name"),
        ("a b", "expected an IP address or a host name"),
        ("a..b", "expected an IP address or a host name"),
        ("-a", "expected an IP address or a host name"),
        ("a\n", "expected an IP address or a host name"),
        ("é", "expected an IP address or a host name"),
        ("x" * 64, "expected an IP address or a host name"),
        ("[]", "expected an IP address or a host name"),
        ("", "expected an IP address or a host name"),
    ],
)
def test_anything_else_is_refused_by_its_field(host: str, said: str) -> None:
    ((where, problem),) = host_problems(host, "admin.host")
    assert where == "admin.host"
    assert said in problem


def test_brackets_are_how_urls_write_an_address() -> None:
    assert [plain_host(host) for host in ("[::1]", "::1", "localhost", "[::1")] == ["::1", "::1", "localhost", "[::1"]


def test_a_name_is_resolved_to_ipv4_if_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    four, six = (socket.AF_INET, 0, 0, "", ("192.0.2.1", 0)), (socket.AF_INET6, 0, 0, "", ("2001:db8::1", 0, 0, 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [six, four])
    assert resolved_host("gw.example") == "192.0.2.1"
    assert resolved_host("2001:db8::2") == "2001:db8::2", "an address is what it is"
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [six])
    assert resolved_host("gw.example") == "2001:db8::1"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("localhost", "http://localhost:80"),
        ("192.0.2.1", "http://192.0.2.1:80"),
    ],
)
def test_urls_are_those_that_this_machine_reaches(host: str, url: str) -> None:
    assert local_url("http", host, 80) == url
