"""Secrets in memory that are not printed by accident, and reading them from the environment and files."""

import os
import re
from typing import Final, NoReturn

from gateway.config.secrets import SecretSource

_HIDDEN: Final = "***"
# Characters that an `Authorization` header can carry, without the space, which would end the key.
_KEY: Final = re.compile(r"[!-~]{1,4096}")
KEY_FORM: Final = "1 to 4096 visible ASCII characters without spaces"
_MAX_BYTES: Final = 16_384


class SecretError(Exception):
    """A secret that cannot be read; the text is one line that names its source and shows none of it."""


class Secret:
    """A secret text; `repr` and `pickle` do not show it, only `reveal` does."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return _HIDDEN

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret does not leave its process")


def provider_key(text: str) -> Secret:
    """Strip white space around a provider's key and check its characters. Raises SecretError."""
    text = text.strip()
    if not text:
        raise SecretError("the key is empty")
    if not _KEY.fullmatch(text):
        raise SecretError(f"the key must have {KEY_FORM}")
    return Secret(text)


def unset_problem(variable: str) -> str:
    """The problem of a secret whose variable is not there; problems of what needs it have it in them."""
    return f"the environment variable {variable} is not set"


def read_source(source: SecretSource) -> str:
    """Read an environment variable or a file. Raises SecretError."""
    if source.env is not None:
        if not (text := os.environ.get(source.env, "")):
            raise SecretError(unset_problem(source.env))
        return text
    path = source.path
    if path is None:
        raise SecretError(f"{source.shown} is neither in the environment nor in a file")
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > _MAX_BYTES:
        raise SecretError(f"{path} has more than {_MAX_BYTES} bytes, too many for a key")
    # Keys are ASCII; other bytes become a character that the key's form refuses.
    return data.decode("ascii", "replace")


def read_provider_key(source: SecretSource) -> Secret:
    """Read a provider's key from an environment variable or a file. Raises SecretError."""
    try:
        return provider_key(read_source(source))
    except SecretError as error:
        # The error of the form alone does not name the source.
        raise SecretError(f"{source.shown}: {error}") from None
