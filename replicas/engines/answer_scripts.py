"""Answers that the simulated engine is given word for word: tool calls and the like can be tried without a GPU."""

from collections.abc import Sequence

from protos.script import Line
from replicas.engines.vocabulary import Vocabulary


class Script:
    """Lines, the first of which that a prompt's text contains has its answer."""

    def __init__(self, lines: Sequence[Line], vocabulary: Vocabulary) -> None:
        self._lines, self._vocabulary = lines, vocabulary
        self._encoded: dict[int, list[int]] = {}

    def answer(self, prompt: Sequence[int]) -> list[int] | None:
        """The answer's tokens; None where no line is for the prompt."""
        text = self._vocabulary.written(prompt).decode(errors="replace")
        for number, line in enumerate(self._lines):
            if line.contains in text:
                if number not in self._encoded:
                    self._encoded[number] = self._vocabulary.encode_marked(line.answer)
                return self._encoded[number]
        return None
