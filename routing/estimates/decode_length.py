"""Predicts the number of tokens of an answer: the protocol, an oracle for studies, and the predictor in service."""

from collections import OrderedDict
from collections.abc import Mapping
from math import log
from typing import Final, Protocol
from zlib import crc32

import msgspec

from routing.estimates.length_sketch import LengthSketch

#: Assumed length for a model that has not answered yet; most answers to chats are of this order.
DEFAULT_TOKENS: Final = 256.0
#: Answers of a group that must be known before it is preferred to a wider group.
_ENOUGH: Final = 16


class Origin(msgspec.Struct, frozen=True):
    """A request's model, tenant and id, by which predictors group answers."""

    model: str
    tenant: str = ""
    request_id: str = ""


class DecodeLength(Protocol):
    """Predicts the number of output tokens of one sequence."""

    def expected(self, origin: Origin, prompt_tokens: int, max_tokens: int) -> float:
        """Return the expected number of tokens, between 1 and `max_tokens`; for costs."""
        ...

    def quantile(self, origin: Origin, prompt_tokens: int, max_tokens: int, share: float) -> float:
        """Return the length that `share` (0 to 1) of such answers does not exceed, between 1 and `max_tokens`."""
        ...

    def learn(self, origin: Origin, prompt_tokens: int, output_tokens: int, *, cut: bool = False) -> None:
        """Learn an answer's length; `cut`: it ended only because it had reached its `max_tokens`."""
        ...


class Oracle:
    """Predicts from given lengths by request id: the upper bound in a study of predictors.

    With an `accuracy` below 1 that share of requests, always the same ones, is predicted exactly and the others wrong
    by a factor of 4 either way, as DeepFlow's predictors of varying accuracy (section 5.3).
    """

    def __init__(self, lengths: Mapping[str, int], accuracy: float = 1.0) -> None:
        self._lengths = lengths
        self._accuracy = accuracy

    def expected(self, origin: Origin, prompt_tokens: int, max_tokens: int) -> float:
        """Return the request's length. Raises KeyError for an unknown one."""
        del prompt_tokens
        tokens = float(self._lengths[origin.request_id])
        if self._accuracy < 1.0:
            drawn = crc32(origin.request_id.encode())
            if drawn % 10_000 >= self._accuracy * 10_000:
                tokens *= 4.0 if drawn >> 16 & 1 else 0.25
        return _bounded(tokens, max_tokens)

    def quantile(self, origin: Origin, prompt_tokens: int, max_tokens: int, share: float) -> float:
        """Return `expected`: an oracle has no uncertainty."""
        del share
        return self.expected(origin, prompt_tokens, max_tokens)

    def learn(self, origin: Origin, prompt_tokens: int, output_tokens: int, *, cut: bool = False) -> None:
        """Do nothing."""


class QuantileDecodeLength:
    """Predicts from answers of the same tenant to prompts of about the same length.

    Prompt lengths are grouped by powers of two. Where too few answers are known, those of the tenant to any prompt are
    used, then those of the model to such prompts, then all of the model. At most `kinds` groups are remembered; the
    least recently learned are dropped. A prediction costs some microseconds.
    """

    def __init__(self, kinds: int = 4096) -> None:
        self._most = kinds
        self._sketches: OrderedDict[tuple[str, str | None, int | None], LengthSketch] = OrderedDict()

    def expected(self, origin: Origin, prompt_tokens: int, max_tokens: int) -> float:
        """Return the mean of the narrowest group with enough answers."""
        # Nearly always the narrowest group has enough.
        sketch = self._sketches.get((origin.model, origin.tenant, prompt_tokens.bit_length()))
        if sketch is None or sketch.weight < _ENOUGH:
            sketch = self._best(origin, prompt_tokens)
        tokens = DEFAULT_TOKENS if sketch is None else sketch.mean(max_tokens)
        return tokens if 1.0 <= tokens <= max_tokens else _bounded(tokens, max_tokens)

    def quantile(self, origin: Origin, prompt_tokens: int, max_tokens: int, share: float) -> float:
        """Return the quantile of the narrowest group with enough answers; with none, of an exponential distribution."""
        sketch = self._best(origin, prompt_tokens)
        if sketch is None:
            return _bounded(-DEFAULT_TOKENS * log(max(1e-9, 1.0 - share)), max_tokens)
        return _bounded(sketch.quantile(share), max_tokens)

    def learn(self, origin: Origin, prompt_tokens: int, output_tokens: int, *, cut: bool = False) -> None:
        """Learn an answer's length; answers without a token are ignored."""
        if output_tokens < 1:
            return
        sketches = self._sketches
        for kind in _kinds(origin, prompt_tokens):
            sketch = sketches.get(kind)
            if sketch is None:
                sketch = sketches[kind] = LengthSketch()
                if len(sketches) > self._most:
                    sketches.popitem(last=False)
            else:
                sketches.move_to_end(kind)
            if cut:
                sketch.add_cut(output_tokens)
            else:
                sketch.add(output_tokens)

    def _best(self, origin: Origin, prompt_tokens: int) -> LengthSketch | None:
        widest = None
        for kind in _kinds(origin, prompt_tokens):
            widest = self._sketches.get(kind)
            if widest is not None and widest.weight >= _ENOUGH:
                return widest
        return widest


def _kinds(origin: Origin, prompt_tokens: int) -> tuple[tuple[str, str | None, int | None], ...]:
    """Return the groups that a request belongs to, from the narrowest to the widest."""
    model, tenant, band = origin.model, origin.tenant, prompt_tokens.bit_length()
    return (model, tenant, band), (model, tenant, None), (model, None, band), (model, None, None)


def _bounded(tokens: float, max_tokens: int) -> float:
    return max(1.0, min(tokens, float(max_tokens)))
