"""A Lua program for the store, as a plain value: who defines one needs no client library."""

from importlib.resources import files


class Script:
    """A Lua program that the store runs atomically; sent once and then named by its digest."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha: str | None = None

    @classmethod
    def load(cls, package: str, name: str) -> "Script":
        """The program in the file `name` of a package's folder."""
        return cls(files(package).joinpath(name).read_text(encoding="utf-8"))
