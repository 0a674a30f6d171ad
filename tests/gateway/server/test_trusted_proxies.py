"""Who asked, behind proxies: only what a trusted one has added counts."""

import ipaddress

import pytest
from starlette.types import Message, Receive, Scope, Send

from gateway.config.network.proxies import networks_of
from gateway.server.trusted_proxies import TrustedProxies, behind_proxies

PROXIES = TrustedProxies(networks_of(["10.0.0.0/8", "192.0.2.1", "fd00::/8"]))
NEAREST = "10.0.0.1"
XFF, FORWARDED, REAL = b"x-forwarded-for", b"forwarded", b"x-real-ip"


def client(*headers: tuple[bytes, str], peer: str = NEAREST) -> str:
    return PROXIES.client_of(peer, [(name, value.encode("latin-1")) for name, value in headers])


@pytest.mark.parametrize("peer", ["203.0.113.9", "2001:db8::9", "192.0.2.2", "::ffff:203.0.113.9", "/run/gw.sock", ""])
def test_nobody_else_is_believed(peer: str) -> None:
    headers = [(XFF, "198.51.100.1"), (FORWARDED, "for=198.51.100.1"), (REAL, "198.51.100.1")]
    assert client(*headers, peer=peer) == peer


@pytest.mark.parametrize("peer", ["10.0.0.1", "192.0.2.1", "fd00::1", "::ffff:10.0.0.1"])
def test_a_trusted_proxy_is(peer: str) -> None:
    assert client((XFF, "198.51.100.1"), peer=peer) == "198.51.100.1"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("6.6.6.6, 198.51.100.1", "198.51.100.1"),  # the left one may be invented
        ("198.51.100.1, 10.0.0.2, 10.0.0.3", "198.51.100.1"),
        ("6.6.6.6, 198.51.100.1 ,10.0.0.2", "198.51.100.1"),
        ("10.0.0.9, 10.0.0.2", "10.0.0.9"),  # a client within the trusted network
        ("198.51.100.1:4711", "198.51.100.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:4711, fd00::7", "2001:db8::1"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("198.51.100.1,, ,10.0.0.2", "198.51.100.1"),
        ("unknown", NEAREST),
        ("198.51.100.1, unknown", NEAREST),  # nobody knows who is behind it
        ("198.51.100.1, unknown, 10.0.0.2", "10.0.0.2"),
        ("nonsense<script>", NEAREST),
        ("198.51.100.1;DROP", NEAREST),
        ("198.51.100.256", NEAREST),
        ("fe80::1%eth0\x00", NEAREST),
        ("fe80::1%eth0", NEAREST),
        ("[198.51.100.1]", NEAREST),
        ("198.51.100.1:999999", NEAREST),
        ("", NEAREST),
        (" , ,", NEAREST),
        ("\xff\xfe", NEAREST),
        ("6.6.6.6," + "10.0.0.2," * 50_000, "10.0.0.2"),
    ],
)
def test_the_client_is_the_first_from_the_right_that_is_not_trusted(value: str, expected: str) -> None:
    assert client((XFF, value)) == expected


def test_lines_of_one_header_are_one_list() -> None:
    assert client((XFF, "6.6.6.6"), (XFF, "198.51.100.1"), (XFF, "10.0.0.2")) == "198.51.100.1"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("for=198.51.100.1", "198.51.100.1"),
        ("For=198.51.100.1;proto=https;by=10.0.0.1", "198.51.100.1"),
        ("proto=https;for=198.51.100.1", "198.51.100.1"),
        ('for="198.51.100.1:4711"', "198.51.100.1"),
        ('for="[2001:db8::1]:4711"', "2001:db8::1"),
        ("for=[2001:db8::1]", "2001:db8::1"),
        ("for=198.51.100.1:4711", "198.51.100.1"),
        ("for=6.6.6.6, for=198.51.100.1, for=10.0.0.2", "198.51.100.1"),
        ('for=198.51.100.1;host="a,b", for=10.0.0.2', "198.51.100.1"),
        ('for="\\198.51.100.1"', "198.51.100.1"),
        ('for=", for=198.51.100.1', "198.51.100.1"),  # a client cannot swallow what the proxy adds
        ('for=6.6.6.6;x=", for="[2001:db8::1]"', "2001:db8::1"),
        ("garbage;;=, for=198.51.100.1", "198.51.100.1"),
        ('"' * 50_000 + ", for=198.51.100.1", "198.51.100.1"),
        ("for=198.51.100.1, for=unknown", NEAREST),
        ("for=198.51.100.1, for=_hidden", NEAREST),
        ("for=198.51.100.1, proto=https", NEAREST),
        ("for=198.51.100.1 garbage", NEAREST),
        ("198.51.100.1", NEAREST),
        ("for=", NEAREST),
        ('for="', NEAREST),
        ("for=" + "1" * 100_000, NEAREST),
        ('for="' + "," * 100_000, NEAREST),
    ],
)
def test_forwarded_is_read_as_its_standard_says(value: str, expected: str) -> None:
    assert client((FORWARDED, value)) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("198.51.100.1", "198.51.100.1"), ("[2001:db8::1]:1", "2001:db8::1"), ("x", NEAREST)]
)
def test_one_address_alone(value: str, expected: str) -> None:
    assert client((REAL, value)) == expected
    assert client((REAL, "6.6.6.6"), (REAL, value)) == expected


def test_the_first_header_that_is_there_counts() -> None:
    forwarded, real = (FORWARDED, "for=198.51.100.2"), (REAL, "198.51.100.3")
    assert client((XFF, "198.51.100.1"), forwarded, real) == "198.51.100.1"
    assert client((XFF, "unknown"), forwarded, real) == NEAREST
    assert client(real, forwarded) == "198.51.100.2"
    assert client(real, (XFF, " ")) == "198.51.100.3"
    assert client((b"x-client-ip", "198.51.100.4")) == NEAREST


def test_a_world_of_trusted_proxies_gives_the_farthest() -> None:
    everyone = TrustedProxies([ipaddress.ip_network("0.0.0.0/0")])
    assert everyone.client_of("203.0.113.1", [(XFF, b"6.6.6.6, 198.51.100.1")]) == "6.6.6.6"


async def test_an_application_sees_the_client() -> None:
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["client"])

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError

    wrapped = behind_proxies(app, PROXIES)
    for peer in (("10.0.0.1", 999), ("203.0.113.1", 999), None):
        await wrapped({"type": "http", "client": peer, "headers": [(XFF, b"198.51.100.1")]}, receive, send)
    assert seen == [("198.51.100.1", 0), ("203.0.113.1", 999), None]
