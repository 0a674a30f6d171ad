"""The admin API's key: from the environment, or from a file of the state directory that the first start creates."""

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
# The characters that an `Authorization` header can carry, in a length that cannot be guessed.
FORM: Final = re.compile(r"[!-~]{16,512}")
FORM_WORDS: Final = "16 to 512 visible ASCII characters without spaces"


class AdminKeyError(RuntimeError):
    """There is no usable admin key; the text is one line for an operator."""


def admin_key_file(config: Config) -> Path:
    """Return the path of the key file that is used when the environment has no key."""
    return config.state_dir / _FILE


def where_admin_key_is(config: Config) -> str:
    """Describe to an operator where the key is."""
    return f"${VARIABLE}" if os.environ.get(VARIABLE) else str(admin_key_file(config))


def admin_key(config: Config) -> str:
    """Return the admin API's key; create a file with a new one where there is none.

    Raises:
        AdminKeyError: The existing key cannot be used.
    """
    if given := os.environ.get(VARIABLE):
        if not FORM.fullmatch(given):
            raise AdminKeyError(f"{VARIABLE} must have {FORM_WORDS}")
        return given
    path = admin_key_file(config)
    try:
        if not path.exists():
            create_once(path, f"{PREFIX}{secrets.token_urlsafe(_SECRET_BYTES)}\n".encode())
        return _read(path)
    except OSError as error:
        raise AdminKeyError(f"the admin key {error.filename or path}: {error.strerror or error}") from error


def matches(authorization: str | None, key: str) -> bool:
    """Compare an `Authorization` header with the key in constant time."""
    scheme, _, given = (authorization or "").partition(" ")
    # Digests have equal length and exist for any text.
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
    if not FORM.fullmatch(key):
        raise AdminKeyError(f"the admin key {path} must have {FORM_WORDS}; remove it, and the next start makes one")
    return key
