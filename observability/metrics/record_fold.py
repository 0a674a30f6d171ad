"""Hold the series of one pool, model or tenant, and fold batches of requests into them.

What is summed or counted alone is so by C, over the whole batch; sums of times are added in the order of the requests,
so that batches make no difference to their last bit.
"""

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import repeat
from operator import add, attrgetter, sub
from typing import Final

from observability.metrics import declarations as declared
from observability.metrics.metric import OTHER
from observability.metrics.names import label
from observability.metrics.snapshot import Numbers, empty
from observability.record import RequestRecord

_REQUEST: Final = declared.REQUEST_SECONDS.bounds
_FIRST_TOKEN: Final = declared.FIRST_TOKEN_SECONDS.bounds
_PER_TOKEN: Final = declared.PER_TOKEN_SECONDS.bounds
_GATEWAY: Final = declared.GATEWAY_SECONDS.bounds
_ENGINE: Final = declared.ENGINE_SECONDS.bounds
_TOKENS: Final = declared.PROMPT_TOKENS.bounds
_FILTER: Final = declared.FILTER_SECONDS.bounds
_NANO: Final = 1e9
#: Bound on reasons; a policy has a handful.
_MOST_REASONS: Final = 64
_NONE: Final = repeat(0)

_SENT: Final = attrgetter("sent")
_LAST_TOKEN: Final = attrgetter("last_token")
_STREAM: Final = attrgetter("stream")
_DECIDED: Final = attrgetter("policy", "reason")
_PROMPT_TOKENS: Final = attrgetter("prompt_tokens")
_PREDICTED_TOKENS: Final = attrgetter("predicted_tokens")
_CACHED_TOKENS: Final = attrgetter("cached_tokens")
_COMPLETION_TOKENS: Final = attrgetter("completion_tokens")
_REASONING_TOKENS: Final = attrgetter("reasoning_tokens")
_REJECTED_TOKENS: Final = attrgetter("rejected_tokens")
_COST: Final = attrgetter("cost_nano_usd")
_RETRIES: Final = attrgetter("retries")
_MIGRATIONS: Final = attrgetter("migrations")
_HEDGES: Final = attrgetter("hedges")
_GAPS: Final = attrgetter("gaps")
_GAP_SECONDS: Final = attrgetter("gap_seconds")
_FILTER_SECONDS: Final = attrgetter("filter_seconds")
_HELD_SECONDS: Final = attrgetter("held_seconds")


class PoolSeries:
    """Series by model and pool."""

    __slots__ = (
        "cached",
        "engine",
        "first_token",
        "gateway",
        "hedges",
        "inter_token",
        "migrations",
        "per_token",
        "predicted",
        "prompt",
        "request",
        "retries",
        "routed",
    )

    def __init__(self) -> None:
        self.request = empty(declared.REQUEST_SECONDS)
        self.first_token = empty(declared.FIRST_TOKEN_SECONDS)
        self.inter_token = empty(declared.INTER_TOKEN_SECONDS)
        self.per_token = empty(declared.PER_TOKEN_SECONDS)
        self.gateway = empty(declared.GATEWAY_SECONDS)
        self.engine = empty(declared.ENGINE_SECONDS)
        self.retries = self.migrations = self.hedges = 0
        self.prompt = self.predicted = self.cached = 0
        self.routed: dict[tuple[str, str], int] = {}

    def fold(self, records: Sequence[RequestRecord]) -> None:
        """Add requests."""
        self.request.add_all([record.ended - record.arrived for record in records], _REQUEST)
        sent = list(filter(_SENT, records))
        if not sent:
            return
        for (policy, reason), count in Counter(map(_DECIDED, sent)).items():
            known = (policy, reason) in self.routed or len(self.routed) < _MOST_REASONS
            decided = (policy, reason if known else OTHER)
            self.routed[decided] = self.routed.get(decided, 0) + count
        self.prompt += sum(map(_PROMPT_TOKENS, sent))
        self.predicted += sum(map(_PREDICTED_TOKENS, sent))
        self.cached += sum(map(_CACHED_TOKENS, sent))
        self.retries += sum(map(_RETRIES, sent))
        self.migrations += sum(map(_MIGRATIONS, sent))
        self.hedges += sum(map(_HEDGES, sent))
        answered = list(filter(_LAST_TOKEN, sent))
        self.gateway.add_all(
            [record.sent - record.arrived + record.ended - record.last_token for record in answered], _GATEWAY
        )
        self.engine.add_all([record.last_token - record.sent for record in answered], _ENGINE)
        streams = list(filter(_STREAM, answered))
        if streams:
            # Only streams deliver tokens one by one.
            self.first_token.add_all([record.first_token - record.arrived for record in streams], _FIRST_TOKEN)
            self.per_token.add_all(
                [
                    (record.last_token - record.first_token) / (tokens - 1.0)
                    for record in streams
                    if (tokens := record.completion_tokens / (record.sequences or 1)) > 1.0
                    and record.last_token > record.first_token
                ],
                _PER_TOKEN,
            )
        paced = list(filter(_GAPS, answered))
        if paced:
            gaps = self.inter_token
            gaps.counts = list(map(sum, zip(gaps.counts, *map(_GAPS, paced), strict=True)))
            gaps.sum = reduce(add, map(_GAP_SECONDS, paced), gaps.sum)

    def collect(self, numbers: Numbers, model: str, pool: str) -> None:
        """Put all series in; empty histograms, such as those of a pool that only streams, are left out."""
        for metric, distribution in (
            (declared.REQUEST_SECONDS, self.request),
            (declared.FIRST_TOKEN_SECONDS, self.first_token),
            (declared.INTER_TOKEN_SECONDS, self.inter_token),
            (declared.PER_TOKEN_SECONDS, self.per_token),
            (declared.GATEWAY_SECONDS, self.gateway),
            (declared.ENGINE_SECONDS, self.engine),
        ):
            if any(distribution.counts):
                numbers.put(metric, distribution, model, pool)
        if not self.prompt:
            return
        for (policy, reason), count in self.routed.items():
            numbers.set(declared.ROUTED, count, model, pool, label(policy), label(reason))
        numbers.set(declared.RETRIES, self.retries, model, pool)
        numbers.set(declared.MIGRATIONS, self.migrations, model, pool)
        numbers.set(declared.HEDGES, self.hedges, model, pool)
        for kind, count in zip(declared.PREFIX_KINDS, (self.prompt, self.predicted, self.cached), strict=True):
            numbers.set(declared.PREFIX_TOKENS, count, model, pool, kind)


class ModelSeries:
    """Series by model."""

    __slots__ = ("answer", "filtering", "held", "prompt")

    def __init__(self) -> None:
        self.prompt = empty(declared.PROMPT_TOKENS)
        self.answer = empty(declared.ANSWER_TOKENS)
        self.filtering = empty(declared.FILTER_SECONDS)
        self.held = empty(declared.FILTER_HELD_SECONDS)

    def fold(self, records: Sequence[RequestRecord]) -> None:
        """Add requests."""
        sent = list(filter(_SENT, records))
        self.prompt.add_all(list(map(_PROMPT_TOKENS, sent)), _TOKENS)
        self.answer.add_all(list(map(_COMPLETION_TOKENS, filter(_LAST_TOKEN, sent))), _TOKENS)
        self.filtering.add_all(list(filter(None, map(_FILTER_SECONDS, records))), _FILTER)
        self.held.add_all(list(filter(None, map(_HELD_SECONDS, records))), _FILTER)

    def collect(self, numbers: Numbers, model: str) -> None:
        """Put all series in."""
        for metric, distribution in (
            (declared.PROMPT_TOKENS, self.prompt),
            (declared.ANSWER_TOKENS, self.answer),
            (declared.FILTER_SECONDS, self.filtering),
            (declared.FILTER_HELD_SECONDS, self.held),
        ):
            if any(distribution.counts):
                numbers.put(metric, distribution, model)


class TenantSeries:
    """Series by model and tenant."""

    __slots__ = ("cached", "cost", "input", "output", "reasoning", "rejected")

    def __init__(self) -> None:
        self.input = self.cached = self.output = self.reasoning = self.rejected = 0
        #: In nanodollars, so that sums are exact.
        self.cost = 0

    def fold(self, records: Sequence[RequestRecord]) -> None:
        """Add requests."""
        self.rejected += sum(map(_REJECTED_TOKENS, records))
        sent = list(filter(_SENT, records))
        prompts, cached = list(map(_PROMPT_TOKENS, sent)), list(map(_CACHED_TOKENS, sent))
        completions, reasoning = list(map(_COMPLETION_TOKENS, sent)), list(map(_REASONING_TOKENS, sent))
        self.cached += sum(cached)
        self.input += sum(map(max, map(sub, prompts, cached), _NONE))
        self.reasoning += sum(reasoning)
        self.output += sum(map(max, map(sub, completions, reasoning), _NONE))
        self.cost += sum(map(_COST, sent))

    def add(self, other: "TenantSeries") -> None:
        """Add the series of another tenant."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def collect(self, numbers: Numbers, model: str, tenant: str) -> None:
        """Put all series in; kinds of tokens with a count of 0 are left out."""
        numbers.set(declared.COST, self.cost / _NANO, model, tenant)
        counts = (self.input, self.cached, self.output, self.reasoning, self.rejected)
        for kind, count in zip(declared.TOKEN_KINDS, counts, strict=True):
            if count:
                numbers.set(declared.TOKENS, count, model, tenant, kind)
