import base64
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.provider_secret import Secret, SecretError
from gateway.config.secrets import SecretSource
from gateway.tenancy.providers.encryption import CannotDecrypt, Cipher, read_cipher

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
KEY = Secret("sk-live-0123456789")
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)


@given(name=NAMES, text=st.text(min_size=1))
def test_what_was_encrypted_opens_under_its_name_alone(name: str, text: str) -> None:
    cipher = Cipher([OLD])
    sealed = cipher.encrypt(name, Secret(text))
    assert cipher.decrypt(name, sealed).reveal() == text
    assert len(text) < 4 or text.encode() not in sealed
    with pytest.raises(CannotDecrypt):
        cipher.decrypt(name + "x", sealed)


@given(at=st.integers(0, 1000), bit=st.integers(0, 7))
def test_any_change_is_noticed(at: int, bit: int) -> None:
    cipher = Cipher([OLD])
    sealed = bytearray(cipher.encrypt("a", KEY))
    sealed[at % len(sealed)] ^= 1 << bit
    with pytest.raises(CannotDecrypt):
        cipher.decrypt("a", bytes(sealed))


@pytest.mark.parametrize("length", [0, 1, 11, 12, 13, 27])
def test_what_is_cut_does_not_open(length: int) -> None:
    cipher = Cipher([OLD])
    with pytest.raises(CannotDecrypt):
        cipher.decrypt("a", cipher.encrypt("a", KEY)[:length])


def test_each_time_it_is_another_ciphertext() -> None:
    cipher = Cipher([OLD])
    sealed = {cipher.encrypt("a", KEY) for _ in range(100)}
    assert len({each[:12] for each in sealed}) == 100


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    before, during, after = Cipher([OLD]), Cipher([NEW, OLD]), Cipher([NEW])
    sealed = before.encrypt("a", KEY)
    assert during.decrypt("a", sealed).reveal() == KEY.reveal()
    assert not during.is_current("a", sealed)
    with pytest.raises(CannotDecrypt):
        after.decrypt("a", sealed)
    again = during.encrypt("a", during.decrypt("a", sealed))
    assert during.is_current("a", again)
    assert after.decrypt("a", again).reveal() == KEY.reveal()
    with pytest.raises(CannotDecrypt):
        before.decrypt("a", again)


def test_a_fingerprint_is_of_the_secret_and_the_encryption_key() -> None:
    cipher = Cipher([OLD])
    assert cipher.fingerprint(KEY) == cipher.fingerprint(Secret(KEY.reveal()))
    assert len({cipher.fingerprint(KEY), cipher.fingerprint(Secret("sk-2")), Cipher([NEW]).fingerprint(KEY)}) == 3


def test_the_forms_of_an_encryption_key(tmp_path: Path) -> None:
    # With characters that base64 for addresses writes otherwise.
    key = b"\xfb\xff" * 16
    sealed = Cipher([key]).encrypt("a", KEY)
    forms = [key.hex(), key.hex().upper(), *(f(key).decode() for f in (base64.b64encode, base64.urlsafe_b64encode))]
    forms += [forms[2].rstrip("="), f"{forms[2]}\n", f"{OLD.hex()}\n{forms[2]}\n", f"{NEW.hex()},{forms[3]}"]
    for form in forms:
        path = tmp_path / "key"
        path.write_text(form)
        assert read_cipher(SecretSource(file=str(path))).decrypt("a", sealed).reveal() == KEY.reveal()


SHORT, LONG = base64.b64encode(OLD[:31]).decode(), base64.b64encode(OLD + b"x").decode()


@pytest.mark.parametrize("text", ["short", OLD.hex()[:-1], SHORT, LONG, "é" * 32, f"{OLD.hex()} short", "\x00" * 32])
def test_other_forms_are_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    with pytest.raises(SecretError) as raised:
        read_cipher(SecretSource(file=str(path)))
    assert f"{path}" in str(raised.value)
    assert "openssl rand -base64 32" in str(raised.value)
    assert text not in str(raised.value)


def test_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(SecretError, match="the environment variable NO_SUCH_KEY is not set"):
        read_cipher(SecretSource(env="NO_SUCH_KEY"))
    with pytest.raises(SecretError, match="none cannot be read: No such file"):
        read_cipher(SecretSource(file=str(tmp_path / "none")))
    (tmp_path / "long").write_bytes(os.urandom(20_000))
    with pytest.raises(SecretError, match="too many for a key"):
        read_cipher(SecretSource(file=str(tmp_path / "long")))
