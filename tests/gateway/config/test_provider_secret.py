import logging
import pickle
import traceback
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.provider_secret import Secret, SecretError, provider_key, read_provider_key
from gateway.config.secrets import SecretSource

TEXT = "sk-live-0123456789"


def test_nothing_shows_it_by_accident(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(TEXT)
    with caplog.at_level(logging.INFO):
        logging.getLogger("x").info("%s %r %s", secret, secret, {"key": secret})
    shown = [repr(secret), str(secret), f"{secret}", f"{[secret]}", caplog.text]
    assert not any(TEXT in text for text in shown)
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
    assert not hasattr(secret, "__dict__")
    assert secret.reveal() == TEXT


@given(st.from_regex(r"[!-~]{1,64}", fullmatch=True), st.sampled_from(["", "\n", " ", "\r\n", "\t"]))
def test_white_space_around_a_key_is_not_part_of_it(text: str, around: str) -> None:
    assert provider_key(around + text + around).reveal() == text


@pytest.mark.parametrize("text", ["", " \n", "two words", "line\nbreak: injected", "clé", "\x00", "x" * 4097, "\ud800"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SecretError) as raised:
        provider_key(text)
    assert not text.strip() or text.strip() not in "".join(traceback.format_exception(raised.value))


def test_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", f" {TEXT}\n")
    assert read_provider_key(SecretSource(env="A_KEY")).reveal() == TEXT
    path = tmp_path / "key"
    path.write_bytes(b"cl\xc3\xa9")
    with pytest.raises(SecretError, match="the key must have") as raised:
        read_provider_key(SecretSource(file=str(path)))
    assert f"{{file: {path}}}" in str(raised.value)
    monkeypatch.setenv("A_KEY", "")
    with pytest.raises(SecretError, match="A_KEY is not set"):
        read_provider_key(SecretSource(env="A_KEY"))
