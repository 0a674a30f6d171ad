"""A Lua program for the store, as a plain value: who defines one needs no client library."""


class Script:
    """A Lua program that the store runs atomically; sent once and then named by its digest."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha: str | None = None
