"""How many tokens an answer will have, before it is given: the seam, an oracle for studies, and what serves."""

from collections import OrderedDict
from collections.abc import Mapping
from math import log
from typing import Final, Protocol
from zlib import crc32

import msgspec

from routing.estimates.length_sketch import LengthSketch

#: What is assumed of a model that has not answered yet: answers to chats are mostly of this order.
DEFAULT_TOKENS: Final = 256.0
#: Answers that must be known of a kind before they are believed more than those of a wider kind.
_ENOUGH: Final = 16
#: The quantile by which a predictor checks itself.
CALIBRATED: Final = 0.9
#: Requests over which the accuracy is averaged, older ones counting ever less.
_RECENT: Final = 1000
#: Relative error up to which a prediction counts as right.
_TOLERANCE: Final = 0.25


class Origin(msgspec.Struct, frozen=True):
    """Whose request it is; a predictor takes of it what it can tell answers apart by."""

    model: str
    tenant: str = ""
    request_id: str = ""


class Accuracy(msgspec.Struct, frozen=True):
    """How good predictions were, each judged before it was learned from. Recent requests count most.

    `below` is the share of answers no longer than their predicted 0.9 quantile, which should be 0.9. `right` is the
    share whose expected length was within 25 %, or in the same power-of-two bucket.
    """

    requests: int = 0
    below: float = 0.0
    right: float = 0.0


class DecodeLength(Protocol):
    """Predicts the number of output tokens of one sequence."""

    def expected(self, origin: Origin, prompt_tokens: int, max_tokens: int) -> float:
        """The mean of what to expect, at least 1 and at most `max_tokens`; for costs."""
        ...

    def quantile(self, origin: Origin, prompt_tokens: int, max_tokens: int, share: float) -> float:
        """What this share (0 to 1) of such answers does not exceed, at least 1 and at most `max_tokens`."""
        ...

    def learn(self, origin: Origin, prompt_tokens: int, output_tokens: int, *, cut: bool = False) -> None:
        """An answer ended with this length; `cut`: only because it had reached its `max_tokens`."""
        ...


class Oracle:
    """Knows the lengths beforehand, by request id: the upper bound in a study of predictors.

    With an accuracy below 1 that share of requests, always the same ones, is told right, and the others wrong by a
    factor of 4 either way, as DeepFlow's predictors of varying accuracy (section 5.3).
    """

    def __init__(self, lengths: Mapping[str, int], accuracy: float = 1.0) -> None:
        self._lengths = lengths
        self._accuracy = accuracy

    def expected(self, origin: Origin, prompt_tokens: int, max_tokens: int) -> float:
        """The request's length. Raises KeyError for an unknown one."""
        del prompt_tokens
        tokens = float(self._lengths[origin.request_id])
        if self._accuracy < 1.0:
            drawn = crc32(origin.request_id.encode())
            if drawn % 10_000 >= self._accuracy * 10_000:
                tokens *= 4.0 if drawn >> 16 & 1 else 0.25
        return _bounded(tokens, max_tokens)

    def quantile(self, origin: Origin, prompt_tokens: int, max_tokens: int, share: float) -> float:
        """The same as expected: nothing is uncertain."""
        del share
        return self.expected(origin, prompt_tokens, max_tokens)

    def learn(self, origin: Origin, prompt_tokens: int, output_tokens: int, *, cut: bool = False) -> None:
        """There is nothing to learn."""


class QuantileDecodeLength:
    """Learns from answers of the same tenant to prompts of about the same length.

    Prompts are told apart by powers of two. Where too few answers are known, those of the tenant to any prompt count,
    then those of the model to such prompts, then all of the model. At most `kinds` of these are remembered; the ones
    that were learned from longest ago are forgotten. A prediction costs some microseconds.
    """

    def __init__(self, kinds: int = 4096) -> None:
        self._most = kinds
        self._sketches: OrderedDict[tuple[str, str | None, int | None], LengthSketch] = OrderedDict()
        self._accuracy: dict[str, Accuracy] = {}

    def expected(self, origin: Origin, prompt_tokens: int, max_tokens: int) -> float:
        """The mean over the nearest kind that enough is known of."""
        sketch = self._best(origin, prompt_tokens)
        return _bounded(DEFAULT_TOKENS if sketch is None else sketch.mean(max_tokens), max_tokens)

    def quantile(self, origin: Origin, prompt_tokens: int, max_tokens: int, share: float) -> float:
        """The quantile of the nearest kind that enough is known of; with none, of an exponential distribution."""
        sketch = self._best(origin, prompt_tokens)
        if sketch is None:
            return _bounded(-DEFAULT_TOKENS * log(max(1e-9, 1.0 - share)), max_tokens)
        return _bounded(sketch.quantile(share), max_tokens)

    def learn(self, origin: Origin, prompt_tokens: int, output_tokens: int, *, cut: bool = False) -> None:
        """Judge what would have been predicted, then learn. Answers without a token teach nothing."""
        if output_tokens < 1:
            return
        self._judge(origin, prompt_tokens, output_tokens, cut)
        for kind in _kinds(origin, prompt_tokens):
            sketch = self._sketches.get(kind)
            if sketch is None:
                sketch = self._sketches[kind] = LengthSketch()
                if len(self._sketches) > self._most:
                    self._sketches.popitem(last=False)
            else:
                self._sketches.move_to_end(kind)
            if cut:
                sketch.add_cut(output_tokens)
            else:
                sketch.add(output_tokens)

    def accuracy(self, model: str) -> Accuracy:
        """How good the predictions for a model were so far."""
        return self._accuracy.get(model, Accuracy())

    def _best(self, origin: Origin, prompt_tokens: int) -> LengthSketch | None:
        widest = None
        for kind in _kinds(origin, prompt_tokens):
            widest = self._sketches.get(kind)
            if widest is not None and widest.weight >= _ENOUGH:
                return widest
        return widest

    def _judge(self, origin: Origin, prompt_tokens: int, output_tokens: int, cut: bool) -> None:
        # What was cut is compared with a prediction that was bounded by the same limit.
        most = output_tokens if cut else 1 << 30
        expected = self.expected(origin, prompt_tokens, most)
        below = output_tokens <= self.quantile(origin, prompt_tokens, most, CALIBRATED)
        right = abs(expected - output_tokens) <= _TOLERANCE * output_tokens
        right = right or round(expected).bit_length() == output_tokens.bit_length()
        before = self._accuracy.get(origin.model, Accuracy())
        requests = before.requests + 1
        share = 1 / min(requests, _RECENT)
        self._accuracy[origin.model] = Accuracy(
            requests, before.below + share * (below - before.below), before.right + share * (right - before.right)
        )


def _kinds(origin: Origin, prompt_tokens: int) -> tuple[tuple[str, str | None, int | None], ...]:
    """From the narrowest to the widest."""
    model, tenant, band = origin.model, origin.tenant, prompt_tokens.bit_length()
    return (model, tenant, band), (model, tenant, None), (model, None, band), (model, None, None)


def _bounded(tokens: float, max_tokens: int) -> float:
    return max(1.0, min(tokens, float(max_tokens)))
