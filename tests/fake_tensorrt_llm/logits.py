"""The logits of a prompt, with what is used of torch's tensors."""

import math

VOCABULARY = 1000


class Logits:
    """Rows of numbers; of a row, `float(logits[token])` is a number."""

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows = rows

    @classmethod
    def after(cls, tokens: list[int]) -> "Logits":
        """After each token its successor is likelier than the others, and the one after that likeliest."""
        rows = [[0.0] * VOCABULARY for _ in tokens]
        for row, token in zip(rows, tokens, strict=True):
            row[(token + 1) % VOCABULARY] = 5.0
            row[(token + 2) % VOCABULARY] = 6.0
        return cls(rows)

    def tolist(self) -> list[list[float]]:
        return self.rows

    def dim(self) -> int:
        return 2

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int | slice) -> "Logits | list[float]":
        return type(self)(self.rows[at]) if isinstance(at, slice) else self.rows[at]

    def float(self) -> "Logits":
        return self

    def log_softmax(self, dim: int) -> "Logits":
        assert dim == -1
        sums = [math.log(sum(math.exp(value) for value in row)) for row in self.rows]
        return Logits([[value - whole for value in row] for row, whole in zip(self.rows, sums, strict=True)])

    def topk(self, count: int, dim: int) -> tuple["Logits", "Logits"]:
        assert dim == -1
        best = [sorted(range(len(row)), key=lambda at: -row[at])[:count] for row in self.rows]
        values = [[row[at] for at in ids] for row, ids in zip(self.rows, best, strict=True)]
        return Logits(values), Logits([[*map(int, ids)] for ids in best])
