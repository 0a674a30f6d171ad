"""A Lua script as a plain value, so that its module needs no client library."""

import hashlib
from importlib.resources import files


class Script:
    """A Lua script that the store runs atomically; it is referred to by its SHA-1, and sent to a server without it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    @classmethod
    def load(cls, package: str, name: str) -> "Script":
        """Read the script `name` from a package's folder."""
        return cls(files(package).joinpath(name).read_text(encoding="utf-8"))
