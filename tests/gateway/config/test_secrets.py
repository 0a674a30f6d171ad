"""What the configuration refers to and does not have itself: certificates, keys of providers, the encryption key."""

from pathlib import Path

import pytest

from gateway.cli.main import main
from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.fleets.replica_specs import replica_specs
from gateway.server.machine_checks import resolve
from gateway.tenancy.providers.provider_keys import ProviderKeys
from gateway.text.tokens.loader import BUNDLED
from routing.transports.openai.settings import KeyedUpstream, no_key
from routing.transports.replica_tls import TlsFiles
from tests.certificates import Authority

KEY = bytes(range(32)).hex()
SECRET = "sk-live-0123456789"
VARIABLE = "PENSTOCK_TEST_PROVIDER_KEY"


def written(folder: Path, pool: str, store: str = "") -> Path:
    path = folder / "c.yaml"
    model = f"{{name: m, tokenizer: mistral-tekken, context: 4096, pools: [{{name: p, {pool}}}]}}"
    path.write_text(f"models: [{model}]\nstore: {{{store}}}\n")
    return path


def openai(api_key: str) -> str:
    return f"engine: openai, replicas: ['https://h/v1'], upstream: {{api_key: {api_key}}}"


def secured(tls: str) -> str:
    return f"engine: tensorrt_llm, replicas: ['grpcs://h:1'], tls: {tls}"


def loaded(folder: Path, pool: str, store: str = "") -> Config:
    path = written(folder, pool, store)
    config = load_config(path)
    resolve(config, str(path), BUNDLED)
    return config


def refusal(folder: Path, pool: str, store: str = "") -> str:
    with pytest.raises(ConfigError) as raised:
        loaded(folder, pool, store)
    return str(raised.value).removeprefix(f"{folder}/c.yaml: ")


def test_certificates_lie_beside_the_file_and_links_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "v1").mkdir()
    authority = Authority(tmp_path / "v1")
    authority.signed("mine")
    (tmp_path / "current").symlink_to("v1")
    monkeypatch.chdir("/")
    folder = "./current"
    pool = secured(f"{{ca: {folder}/authority.pem, certificate: {folder}/mine.pem, key: {folder}/mine.key}}")
    (spec,) = replica_specs(loaded(tmp_path, pool), 0, ProviderKeys(None, None).key_of)  # type: ignore[arg-type]
    at = tmp_path / "current"
    assert spec.tls == TlsFiles(at / "authority.pem", at / "mine.pem", at / "mine.key")


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.signed("mine")
    authority.signed("other")
    where, at = "models[0].pools[0].tls", tmp_path
    assert refusal(tmp_path, secured("{ca: none.pem}")).startswith(f"{where}.ca: {at}/none.pem cannot be read: No such")
    said = refusal(tmp_path, secured("{ca: mine.key}"))
    assert said == f"{where}.ca: {at}/mine.key has no certificate in PEM form"
    said = refusal(tmp_path, secured("{certificate: mine.pem, key: other.key}"))
    assert said == f"{where}: {at}/other.key is not the key of the certificate in {at}/mine.pem"


def test_check_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, secured("{ca: none.pem}"))
    assert main(["check", "--config", str(path)]) == 1
    assert "models[0].pools[0].tls.ca: " in capsys.readouterr().err


def test_keys_of_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    (tmp_path / "key").write_text(f"{SECRET}\n")
    (tmp_path / "kek").write_text(KEY)
    for api_key in (f"{{env: {VARIABLE}}}", "{file: key}", "{stored: openai}"):
        config = loaded(tmp_path, openai(api_key), "encryption_key: {file: kek}")
        keys = ProviderKeys(None, config.store.encryption_key)  # type: ignore[arg-type]
        (spec,) = replica_specs(config, 0, keys.key_of)
        assert isinstance(spec.settings, KeyedUpstream)
        assert spec.settings.key() == (None if "stored" in api_key else SECRET)
        assert SECRET not in repr(spec)
        assert replica_specs(config, 0, keys.key_of) == [spec]
    (spec,) = replica_specs(loaded(tmp_path, "engine: openai, replicas: ['http://h']"), 0, keys.key_of)
    assert isinstance(spec.settings, KeyedUpstream)
    assert spec.settings.key is no_key


def test_sources_that_say_too_little_or_too_much(tmp_path: Path) -> None:
    where = "models[0].pools[0].upstream.api_key"
    exactly = f"{where}: expected exactly one of env, file, stored"
    assert refusal(tmp_path, openai("{}")) == exactly
    assert refusal(tmp_path, openai("{env: A, file: b}")) == exactly
    assert refusal(tmp_path, openai("{stored: a}")).startswith(f"{where}: a stored key needs store.encryption_key")
    said = refusal(tmp_path, openai(f"{{env: '{SECRET}'}}"))
    assert said.startswith(f"{where}.env: expected str matching")
    assert SECRET not in said
    assert refusal(tmp_path, openai(f"'{SECRET}'")) == f"{where}: expected mapping | list"
    for listed in (f"['{SECRET}']", f"[{{env: '{SECRET}'}}]"):
        said = refusal(tmp_path, openai(listed))
        assert said.startswith(f"{where}[0]") and SECRET not in said
    assert refusal(tmp_path, openai("{env: A}"), f"encryption_key: {KEY}") == "store.encryption_key: expected mapping"
    said = refusal(tmp_path, openai("{env: A}"), "encryption_key: {}")
    assert said == "store.encryption_key: expected exactly one of env, file"
    said = refusal(tmp_path, "engine: simulated, replicas: 1, upstream: {}")
    assert said == "models[0].pools[0].upstream: only openai replicas have it, not simulated"


def test_secrets_that_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    where = "models[0].pools[0].upstream.api_key"
    said = refusal(tmp_path, openai(f"{{env: {VARIABLE}}}"))
    assert said == f"{where}: {{env: {VARIABLE}}}: the environment variable {VARIABLE} is not set"
    assert "none cannot be read: No such file" in refusal(tmp_path, openai("{file: none}"))
    monkeypatch.setenv(VARIABLE, f"{SECRET} {SECRET}")
    said = refusal(tmp_path, openai(f"{{env: {VARIABLE}}}"))
    assert "visible ASCII characters" in said
    assert SECRET not in said
    said = refusal(tmp_path, openai("{stored: a}"), f"encryption_key: {{env: {VARIABLE}}}")
    assert said.startswith(f"store.encryption_key: {{env: {VARIABLE}}}: an encryption key is 32 bytes")
    assert SECRET not in said


def test_check_shows_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    path = written(tmp_path, openai(f"{{env: {VARIABLE}}}"))
    assert main(["check", "--config", str(path)]) == 0
    assert SECRET not in capsys.readouterr().out
    assert SECRET not in repr(load_config(path))
