"""Encryption of provider keys in the store: AES-256-GCM, with each key's name as associated data.

NIST SP 800-38D: with random 96-bit nonces one key is good for 2^32 encryptions; an operator's hand makes far fewer.
"""

import base64
import binascii
import hmac
import os
import re
from collections.abc import Sequence
from typing import Final

from gateway.config.provider_secret import Secret, SecretError, read_source
from gateway.config.secrets import SecretSource

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_HEX: Final = re.compile(r"[0-9A-Fa-f]{64}")
_FORM: Final = "32 bytes as 64 hexadecimal digits or in base64"
#: Prefix of the associated data: ciphertexts for another purpose or in another format do not decrypt here.
_PURPOSE: Final = b"penstock provider key 1\x00"
_FINGERPRINT: Final = b"penstock provider fingerprint 1"
_FINGERPRINT_DIGITS: Final = 8


class CannotDecrypt(Exception):
    """No key decrypts the record: it was encrypted with another key or under another name, or was changed."""


class Cipher:
    """A set of keys: the first encrypts, all of them decrypt, so that keys can be replaced."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        assert keys
        self._ciphers = [AESGCM(key) for key in keys]
        self._fingerprint_key = hmac.digest(keys[0], _FINGERPRINT, "sha256")

    def encrypt(self, name: str, secret: Secret) -> bytes:
        """Encrypt a secret under a name; gives nonce, ciphertext and tag."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, secret.reveal().encode(), _PURPOSE + name.encode())

    def decrypt(self, name: str, sealed: bytes) -> Secret:
        """Decrypt a secret under its name. Raises CannotDecrypt."""
        return self._opened(name, sealed)[0]

    def is_current(self, name: str, sealed: bytes) -> bool:
        """Whether the first key encrypted the record. Raises CannotDecrypt."""
        return self._opened(name, sealed)[1] == 0

    def fingerprint(self, secret: Secret) -> str:
        """A keyed digest that tells two secrets apart; it cannot be computed without the first key."""
        digest = hmac.digest(self._fingerprint_key, secret.reveal().encode(), "sha256")
        return digest.hex()[:_FINGERPRINT_DIGITS]

    def _opened(self, name: str, sealed: bytes) -> tuple[Secret, int]:
        from cryptography.exceptions import InvalidTag

        nonce, ciphertext = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        if len(nonce) == _NONCE_BYTES:
            for place, cipher in enumerate(self._ciphers):
                try:
                    return Secret(cipher.decrypt(nonce, ciphertext, _PURPOSE + name.encode()).decode()), place
                except InvalidTag:
                    pass
        raise CannotDecrypt("it was encrypted with another key or under another name, or has been changed")


def read_cipher(source: SecretSource) -> Cipher:
    """Read a cipher's keys, separated by white space or commas, from a source. Raises SecretError."""
    words = re.split(r"[\s,]+", read_source(source).strip())
    keys = [_key(word) for word in words]
    if None in keys:
        raise SecretError(f"{source.shown}: an encryption key is {_FORM}; make one with: openssl rand -base64 32")
    return Cipher([key for key in keys if key is not None])


def _key(word: str) -> bytes | None:
    if _HEX.fullmatch(word):
        return bytes.fromhex(word)
    try:
        key = base64.b64decode(word.replace("-", "+").replace("_", "/") + "=" * (-len(word) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None
