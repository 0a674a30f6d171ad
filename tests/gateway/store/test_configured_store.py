"""The store of a configuration: addresses and passwords from elsewhere, and what is said where they cannot be used."""

import re
from pathlib import Path

import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.store.configured_store import open_store, store_trouble, store_url, unusable_store
from gateway.store.embedded import embedded_url
from tests.certificates import Authority
from tests.ports import free_port
from tests.valkeys import valkeys

MODELS = "models: [{name: m, tokenizer: t, context: 9, pools: [{name: p, engine: simulated, replicas: 1}]}]\n"


def config_with(folder: Path, store: str) -> Config:
    path = folder / "c.yaml"
    path.write_text(f"{MODELS}store: {store}\n")
    return load_config(path)


def test_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_url(config_with(tmp_path, "{}")) == embedded_url(tmp_path / ".penstock")
    assert store_url(config_with(tmp_path, "{url: 'redis://h:6379/1'}")) == "redis://h:6379/1"
    monkeypatch.setenv("STORE_URL", "rediss://u:secret@h:1/2")
    config = config_with(tmp_path, "{url: {env: STORE_URL}}")
    assert store_url(config) == "rediss://u:secret@h:1/2"
    assert config.store.shown_url == "{env: STORE_URL}"
    assert "secret" not in repr(config)
    (tmp_path / "url").write_text("unix:///run/s.sock\n")
    assert store_url(config_with(tmp_path, "{url: {file: url}}")) == "unix:///run/s.sock"
    (tmp_path / "password").write_text("se/cret\n")
    config = config_with(tmp_path, "{url: 'redis://u@h', password: {file: password}}")
    assert store_url(config) == "redis://u:se%2Fcret@h"


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("{url: 'env:STORE_URL'}", "store.url: write it as a mapping: {env: STORE_URL}"),
        ("{url: {env: A, file: b}}", "store.url: expected exactly one of env, file"),
        ("{url: {}}", "store.url: expected exactly one of env, file"),
        ("{password: {env: A}}", "store.password: the embedded store has none"),
        ("{url: 'redis://:hunter2@h', password: {env: A}}", "store.password: store.url has a password too"),
        ("{url: 'redis://h', password: hunter2}", "store.password: expected mapping"),
        ("{url: 'redis://h', password: {}}", "store.password: expected exactly one of env, file"),
        ("{url: 'redis://:hunter2@h?ssl_ca_cert=x'}", "store.url: unknown option ssl_ca_cert"),
    ],
)
def test_what_the_file_alone_shows_to_be_wrong(tmp_path: Path, store: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        config_with(tmp_path, store)
    assert "hunter2" not in str(caught.value)


def test_what_this_machine_shows_to_be_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, store, where, said in (
        ("", "{url: {env: STORE}}", "store.url", "the environment variable STORE is not set"),
        ("hunter2", "{url: {env: STORE}}", "store.url", "{env: STORE}: expected an address"),
        ("redis://:hunter2@h?x=1", "{url: {env: STORE}}", "store.url", "{env: STORE}: unknown option x"),
        ("embedded", "{url: {env: STORE}}", "store.url", "expected an address"),
        ("x", "{url: {file: none}}", "store.url", "none cannot be read: No such file"),
        ("", "{url: 'redis://h', password: {env: STORE}}", "store.password", "STORE is not set"),
        ("rédis", "{url: 'redis://h', password: {file: bytes}}", "store.password", "expected ASCII characters"),
        ("redis://:hunter2@h", "{url: {env: STORE}, password: {env: STORE}}", "store.password", "has a password too"),
        ("x", "{url: 'rediss://h?ssl_ca_certs=/no/ca.pem'}", "store.url", "ssl_ca_certs: /no/ca.pem cannot be read"),
    ):
        monkeypatch.setenv("STORE", value)
        (tmp_path / "bytes").write_text(value, encoding="utf-8")
        config = config_with(tmp_path, store)
        ((path, problem),) = unusable_store(config.store)
        assert path == where
        assert said in problem
        assert "hunter2" not in problem
    authority = Authority(tmp_path)
    assert not list(unusable_store(config_with(tmp_path, f"{{url: 'rediss://h?ssl_ca_certs={authority.ca}'}}").store))
    assert not list(unusable_store(config_with(tmp_path, "{}").store))


async def test_a_trial_says_what_is_wrong(tmp_path: Path) -> None:
    assert await store_trouble(config_with(tmp_path, "{}")) is None
    port = free_port()
    trouble = await store_trouble(config_with(tmp_path, f"{{url: 'redis://127.0.0.1:{port}'}}"))
    assert trouble is not None
    assert (str(trouble), trouble.refused) == (f"nobody listens at 127.0.0.1:{port}", False)
    with valkeys(tmp_path, 1, password="right") as (server,):
        at = f"127.0.0.1:{server.port}"
        assert await store_trouble(config_with(tmp_path, f"{{url: 'redis://:right@{at}'}}")) is None
        trouble = await store_trouble(config_with(tmp_path, f"{{url: 'redis://:hunter2@{at}'}}"))
        assert trouble is not None
        assert (str(trouble), trouble.refused) == ("it refuses the password of the address", True)


@pytest.mark.parametrize("whole", [False, True])
async def test_a_password_that_is_replaced_counts_for_new_connections(tmp_path: Path, whole: bool) -> None:
    with valkeys(tmp_path, 1, password="right") as (server,):
        at, file = f"127.0.0.1:{server.port}", tmp_path / "secret"

        def says(password: str) -> None:
            file.write_text(f"redis://:{password}@{at}" if whole else password)

        says("right")
        config = config_with(
            tmp_path, "{url: {file: secret}}" if whole else f"{{url: 'redis://{at}', password: {{file: secret}}}}"
        )
        store = open_store(config, timeout=5.0)
        await store.ping()
        with server.client() as client:
            client.config_set("requirepass", "fresh")
        says("fresh")
        store._server.renew()
        await store.ping()
        file.unlink()
        # What it said last holds while it is being replaced.
        store._server._renewed = float("-inf")  # type: ignore[attr-defined]
        store._server.renew()
        await store.ping()
        await store.aclose()
