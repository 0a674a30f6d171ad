"""Scripted answers of the simulated engine, by which tool calls and the like can be tried without a GPU."""

from collections.abc import Sequence

from protos.script import Line
from replicas.engines.vocabulary import Vocabulary


class Script:
    """Lines of (text, answer); the first line whose text is in the prompt gives the answer."""

    def __init__(self, lines: Sequence[Line], vocabulary: Vocabulary) -> None:
        self._lines, self._vocabulary = lines, vocabulary
        self._encoded: dict[int, list[int]] = {}

    def answer(self, prompt: Sequence[int]) -> list[int] | None:
        """Return the answer's tokens; None where no line matches the prompt."""
        text = self._vocabulary.written(prompt).decode(errors="replace")
        for number, line in enumerate(self._lines):
            if line.contains in text:
                if number not in self._encoded:
                    self._encoded[number] = self._vocabulary.encode_marked(line.answer)
                return self._encoded[number]
        return None
