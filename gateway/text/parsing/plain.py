"""Answers that are text and nothing else."""

from gateway.text.parsing.delta import Delta, Text


class PlainParser:
    """The `OutputParser` that takes nothing apart."""

    __slots__ = ()

    @property
    def thinking(self) -> bool:
        """Never."""
        return False

    def flow(self) -> Delta | None:
        """All is text."""
        return Text("")

    def feed(self, text: str) -> list[Delta]:
        """As it is."""
        return [Text(text)] if text else []

    def finish(self) -> list[Delta]:
        """Nothing is held back."""
        return []
