"""The admin API's key: the environment's, or one in a file of the state directory that the first start makes."""

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from gateway.config.settings import Config
from observability.secret_file import create_once

VARIABLE: Final = "PENSTOCK_ADMIN_KEY"
PREFIX: Final = "sk-penstock-admin-"
_FILE: Final = "admin.key"
_SECRET_BYTES: Final = 32
# What an `Authorization` header can carry, and too long to be guessed.
_FORM: Final = re.compile(r"[!-~]{16,512}")
_FORM_WORDS: Final = "16 to 512 visible ASCII characters without spaces"


class AdminKeyError(RuntimeError):
    """There is no usable key; the text is one line for an operator."""


def admin_key_file(config: Config) -> Path:
    """Where the key is when the environment has none."""
    return config.state_dir / _FILE


def where_admin_key_is(config: Config) -> str:
    """Where an operator finds the key."""
    return f"${VARIABLE}" if os.environ.get(VARIABLE) else str(admin_key_file(config))


def admin_key(config: Config) -> str:
    """The key that the admin API asks for; a file with a new one is made where there is none.

    Raises:
        AdminKeyError: What there is cannot be used.
    """
    if given := os.environ.get(VARIABLE):
        if not _FORM.fullmatch(given):
            raise AdminKeyError(f"{VARIABLE} must have {_FORM_WORDS}")
        return given
    path = admin_key_file(config)
    try:
        if not path.exists():
            create_once(path, f"{PREFIX}{secrets.token_urlsafe(_SECRET_BYTES)}\n".encode())
        return _read(path)
    except OSError as error:
        raise AdminKeyError(f"the admin key {error.filename or path}: {error.strerror or error}") from error


def matches(authorization: str | None, key: str) -> bool:
    """Whether an `Authorization` header has the key, in a time that tells nothing of it."""
    scheme, _, given = (authorization or "").partition(" ")
    # Digests are alike in length, and any text has one.
    return scheme.lower() == "bearer" and hmac.compare_digest(_digest(given.strip(" ")), _digest(key))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _read(path: Path) -> str:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise AdminKeyError(
                f"the admin key {path} is open to other users; run: chmod 600 {path} (or set {VARIABLE} instead)"
            )
        key = file.read(1024).decode("ascii", "replace").strip()
    if not _FORM.fullmatch(key):
        raise AdminKeyError(f"the admin key {path} must have {_FORM_WORDS}; remove it, and the next start makes one")
    return key
