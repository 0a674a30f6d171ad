"""The admin API's key: the environment's, or one in a file of the state directory that the first start makes."""

import contextlib
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from gateway.config import Config

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
            _create(path)
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


def _create(path: Path) -> None:
    """Write the whole file beside its place and then link it there, which fails where another process was first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{_FILE}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{PREFIX}{secrets.token_urlsafe(_SECRET_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()


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
