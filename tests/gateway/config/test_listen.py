"""The configuration of the gateway's own port, and of models' other names."""

from pathlib import Path
from typing import Any

import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.server.machine_checks import resolve
from tests.certificates import Authority

MODEL = """\
models:
  - name: big
    aliases: [{aliases}]
    tokenizer: mistral-tekken
    context: 100
    pools: [{{name: p, engine: simulated, replicas: 1}}]
  - name: small
    tokenizer: mistral-tekken
    context: 100
    adapters: [{{name: fr}}]
    pools: [{{name: q, engine: simulated, replicas: 1, simulated: {{max_adapters: 1}}}}]
"""


def loaded(folder: Path, listen: str = "port: 8080", aliases: str = "") -> Config:
    path = folder / "penstock.yaml"
    path.write_text(f"listen: {{{listen}}}\n{MODEL.format(aliases=aliases)}", encoding="utf-8")
    return load_config(path)


def refusal(folder: Path, **sections: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, **sections)
    return str(caught.value)


def test_what_is_not_said_is_off(tmp_path: Path) -> None:
    listen = loaded(tmp_path).listen
    assert (listen.cors, listen.tls, listen.http2, listen.stream_keep_alive_seconds) == (None, None, False, 15.0)


@pytest.mark.parametrize(
    "origin", ["*", "https://app.example.com", "http://localhost:3000", "http://[::1]:80", "app://obsidian.md"]
)
def test_origins(tmp_path: Path, origin: str) -> None:
    cors = loaded(tmp_path, listen=f'cors: {{origins: ["{origin}"]}}').listen.cors
    assert cors is not None
    assert cors.origins == (origin,)


@pytest.mark.parametrize(
    "origin", ["example.com", "https://a.com/", "https://A.com", "https://*.a.com", "https://a.com/x", "a b"]
)
def test_origins_that_no_browser_sends(tmp_path: Path, origin: str) -> None:
    assert "listen.cors.origins[0]: expected *, or an origin" in refusal(
        tmp_path, listen=f'cors: {{origins: ["{origin}"]}}'
    )


def test_a_certificate_is_found_beside_the_file(tmp_path: Path) -> None:
    Authority(tmp_path).signed("server")
    config = loaded(tmp_path, listen="tls: {certificate: server.pem, key: server.key}")
    assert config.listen.tls is not None
    assert config.listen.tls.certificate == str(tmp_path / "server.pem")
    resolve(config, "penstock.yaml", ["mistral-tekken"])
    (tmp_path / "server.key").write_text("no key", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"listen\.tls: .*server\.key has no private key"):
        resolve(config, "penstock.yaml", ["mistral-tekken"])


def test_aliases(tmp_path: Path) -> None:
    assert loaded(tmp_path, aliases="gpt-4o, gpt-4").aliases == {"gpt-4o": "big", "gpt-4": "big"}


@pytest.mark.parametrize(
    ("aliases", "problem"),
    [
        ("big", 'models[0].aliases[0]: "big" is already taken by models[0].name'),
        ("a, a", 'models[0].aliases[1]: "a" is already taken by models[0].aliases[0]'),
        ("small", 'models[1].name: "small" is already taken by models[0].aliases[0]'),
        ("'small:fr'", 'models[1].adapters[0].name: there is a model of the name "small:fr"'),
        ("'a b'", "models[0].aliases[0]"),
    ],
)
def test_names_that_are_taken(tmp_path: Path, aliases: str, problem: str) -> None:
    assert problem in refusal(tmp_path, aliases=aliases)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("[10.0.0.0/8, nonsense]", "listen.trusted_proxies[1]: expected an IP address or a block of them"),
        ("[proxy.example]", "listen.trusted_proxies[0]: expected an IP address or a block of them"),
        ("['fe80::1%eth0']", "listen.trusted_proxies[0]: expected an IP address or a block of them"),
        ("[10.0.0.0/33]", "listen.trusted_proxies[0]: expected an IP address or a block of them"),
        ("[10.1.0.0/8]", "listen.trusted_proxies[0]: expected a block without bits after its length: 10.0.0.0/8"),
        ("['fd00::1/8']", "listen.trusted_proxies[0]: expected a block without bits after its length: fd00::/8"),
        ("10.0.0.0/8", "listen.trusted_proxies: expected list"),
    ],
)
def test_proxies_are_addresses_and_blocks(tmp_path: Path, given: str, said: str) -> None:
    assert said in refusal(tmp_path, listen=f"trusted_proxies: {given}")
    listen = loaded(tmp_path, listen="trusted_proxies: [10.0.0.0/8, 192.0.2.1, 'fd00::/8', '::1']").listen
    assert listen.trusted_proxies == ("10.0.0.0/8", "192.0.2.1", "fd00::/8", "::1")


@pytest.mark.parametrize("host", ["unix:/run/gw.sock", "127.0.0.1:80", "'*'"])
def test_a_host_is_checked_and_read_without_its_brackets(tmp_path: Path, host: str) -> None:
    assert "listen.host: expected an" in refusal(tmp_path, listen=f"host: {host}")
    assert loaded(tmp_path, listen="host: '[::1]'").listen.host == "::1"
