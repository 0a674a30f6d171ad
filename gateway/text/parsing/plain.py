"""The parser of plain text answers."""

from gateway.text.parsing.delta import Delta, Text


class PlainParser:
    """An `OutputParser` that gives all text unchanged."""

    __slots__ = ()

    @property
    def thinking(self) -> bool:
        return False

    def flow(self) -> Delta | None:
        return Text("")

    def feed(self, text: str) -> list[Delta]:
        return [Text(text)] if text else []

    def finish(self) -> list[Delta]:
        return []
