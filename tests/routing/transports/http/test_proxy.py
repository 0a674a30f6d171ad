import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from routing.transports.http.buffered_exchange import get
from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_request import HttpFailure
from routing.transports.http.origin import origin_of
from routing.transports.http.proxied_origin import proxied
from routing.transports.http.proxy import environment_proxy, proxy_of
from tests.certificates import Authority
from tests.upstreams import Upstream, plain, upstream


class FakeProxy:
    """Tunnels to one port, whatever host it is asked for, and keeps the heads that it is sent."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.url = ""
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        if not head.startswith(b"CONNECT"):
            writer.write(plain(b"forwarded"))
        else:
            writer.write(self.answer)
            if b" 200 " in self.answer:
                there, back = await asyncio.open_connection("127.0.0.1", self.port)
                await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
                return
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                target.write(data)
        target.close()


@contextlib.asynccontextmanager
async def proxy_to(fake: Upstream | None, answer: bytes | None = None) -> AsyncIterator[FakeProxy]:
    made = FakeProxy() if answer is None else FakeProxy(answer)
    made.port = int(fake.url.split(":")[2].split("/")[0]) if fake is not None else 0
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://user:s%40cret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()


async def asked(url: str, proxy: str, contexts: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    origin = replace(origin_of(url), proxy=proxy_of(proxy))
    pool = ConnectionPool(origin, contexts=None if contexts is None else lambda: contexts)
    try:
        return await get(pool, f"{origin.path}/models", {}, 4096, 5.0)
    finally:
        await pool.aclose()


async def test_tls_goes_through_a_tunnel_to_the_hosts_own_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.signed(hosts=("api.example",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)
    trusted = ssl.create_default_context(cafile=str(authority.ca))
    async with upstream(context) as fake, proxy_to(fake) as proxy:
        assert await asked("https://api.example/v1", proxy.url, trusted) == (200, b'{"data":[]}')
        assert fake.looks[0].target == "/v1/models" and "proxy-authorization" not in fake.looks[0].headers
        (head,) = proxy.heads
        assert head.startswith("CONNECT api.example:443 HTTP/1.1\r\nhost: api.example:443\r\n")
        assert "proxy-authorization: Basic dXNlcjpzQGNyZXQ=\r\n" in head
        with pytest.raises(HttpFailure, match=r"certificate is not accepted for other\.example"):
            await asked("https://other.example/v1", proxy.url, trusted)


async def test_plain_requests_are_forwarded_in_the_absolute_form() -> None:
    async with proxy_to(None) as proxy:
        assert await asked("http://api.example:81/v1", proxy.url) == (200, b"forwarded")
        assert proxy.heads[0].startswith("GET http://api.example:81/v1/models HTTP/1.1\r\nhost: api.example:81\r\n")
        assert "proxy-authorization: Basic dXNlcjpzQGNyZXQ=\r\n" in proxy.heads[0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "answers CONNECT with status 407"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "does not answer CONNECT with HTTP"),
        (b"x" * 20_000, "a head that is too long"),
    ],
)
async def test_a_proxy_that_refuses_is_named_without_its_password(answer: bytes, said: str) -> None:
    async with proxy_to(None, answer) as proxy:
        with pytest.raises(HttpFailure) as caught:
            await asked("https://api.example/v1", proxy.url, ssl.create_default_context())
        shown = proxy.url.replace("user:s%40cret@", "")
        assert caught.value.problem == f"no connection: the proxy {shown} {said}" or said in caught.value.problem
        assert "cret" not in caught.value.problem


async def test_a_proxy_that_is_not_there_is_named() -> None:
    for url in ("https://api.example/v1", "http://api.example/v1"):
        with pytest.raises(HttpFailure, match=r"the proxy http://127\.0\.0\.1:1"):
            await asked(url, "http://u:secret@127.0.0.1:1", ssl.create_default_context())


ENVIRONMENT = {
    "HTTPS_PROXY": "http://one:1",
    "http_proxy": "two:2",
    "NO_PROXY": "in.example, .corp,10.0.0.0/8,h:81,::1",
}


@pytest.mark.parametrize(
    ("host", "port", "tls", "found"),
    [
        ("api.example", 443, True, "http://one:1"),
        ("api.example", 80, False, "http://two:2"),
        ("in.example", 443, True, None),
        ("deep.in.example", 443, True, None),
        ("within.example", 443, True, "http://one:1"),
        ("api.corp", 443, True, None),
        ("10.1.2.3", 443, True, None),
        ("11.1.2.3", 443, True, "http://one:1"),
        ("h", 81, False, None),
        ("h", 82, False, "http://two:2"),
        ("127.0.0.1", 80, False, None),
        ("LOCALHOST", 443, True, None),
        ("::1", 443, True, None),
    ],
)
def test_the_environment_names_a_proxy_and_its_exceptions(host: str, port: int, tls: bool, found: str | None) -> None:
    proxy = environment_proxy(host, port, ENVIRONMENT, tls=tls)
    assert (None if proxy is None else repr(proxy)) == found


def test_the_environments_other_forms() -> None:
    def found(environment: dict[str, str], *, tls: bool = True) -> str:
        return repr(environment_proxy("api.example", 443, environment, tls=tls))

    assert found({}) == found({"HTTPS_PROXY": ""}) == found({"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}) == "None"
    assert found({"ALL_PROXY": "http://p:1"}) == "http://p:1"
    assert found({"HTTPS_PROXY": "http://up", "https_proxy": "https://low"}) == "https://low:443"
    assert found({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, tls=False) == "None"


def test_what_is_configured_counts_before_the_environment(caplog: pytest.LogCaptureFixture) -> None:
    origin = origin_of("https://api.example/v1")
    assert proxied(origin, "none", ENVIRONMENT).proxy is None
    assert repr(proxied(origin, "http://a:b@mine:3", ENVIRONMENT).proxy) == "http://mine:3"
    assert proxied(replace(origin, host="10.0.0.1", called="api.example"), None, ENVIRONMENT).proxy is None
    assert proxied(origin, None, {"ALL_PROXY": "socks5://u:secret@p:1"}).proxy is None
    assert "ALL_PROXY" in caplog.text and "secret" not in caplog.text


@pytest.mark.parametrize(
    "url", ["socks5://secret:1", "http://", "http://secret:1/path", "http://secret:x", "http://h:1?secret"]
)
def test_bad_urls_are_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="expected http://HOST:PORT") as caught:
        proxy_of(url)
    assert "secret" not in str(caught.value)
