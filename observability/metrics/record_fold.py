"""Hold the series of one pool, model or tenant, and fold requests into them."""

from bisect import bisect_left
from operator import add
from typing import Final

from observability.metrics import declarations as declared
from observability.metrics.metric import OTHER
from observability.metrics.names import label
from observability.metrics.snapshot import Distribution, Numbers, empty
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

    def fold(self, record: RequestRecord) -> None:
        """Add a request."""
        arrived, sent, last, ended = record.arrived, record.sent, record.last_token, record.ended
        self.request.add(ended - arrived, _REQUEST)
        if not sent:
            return
        decided = (record.policy, record.reason)
        if decided not in self.routed and len(self.routed) >= _MOST_REASONS:
            decided = (record.policy, OTHER)
        self.routed[decided] = self.routed.get(decided, 0) + 1
        self.prompt += record.prompt_tokens
        self.predicted += record.predicted_tokens
        self.cached += record.cached_tokens
        if record.retries or record.migrations or record.hedges:
            self.retries += record.retries
            self.migrations += record.migrations
            self.hedges += record.hedges
        if not last:
            return
        self.gateway.add(sent - arrived + ended - last, _GATEWAY)
        self.engine.add(last - sent, _ENGINE)
        if record.stream:
            # Only streams deliver tokens one by one.
            first = record.first_token
            self.first_token.add(first - arrived, _FIRST_TOKEN)
            tokens = record.completion_tokens / (record.sequences or 1)
            if last > first and tokens > 1.0:
                self.per_token.add((last - first) / (tokens - 1.0), _PER_TOKEN)
        if record.gaps:
            gaps = self.inter_token
            gaps.counts = list(map(add, gaps.counts, record.gaps))
            gaps.sum += record.gap_seconds

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

    def fold(self, record: RequestRecord) -> None:
        """Add a request."""
        if record.sent:
            self._count(self.prompt, record.prompt_tokens)
            if record.last_token:
                self._count(self.answer, record.completion_tokens)
        if record.filter_seconds:
            self.filtering.add(record.filter_seconds, _FILTER)
        if record.held_seconds:
            self.held.add(record.held_seconds, _FILTER)

    @staticmethod
    def _count(distribution: Distribution, tokens: int) -> None:
        distribution.counts[bisect_left(_TOKENS, tokens)] += 1
        distribution.sum += tokens

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

    def fold(self, record: RequestRecord) -> None:
        """Add a request."""
        self.rejected += record.rejected_tokens
        if record.sent:
            cached, reasoning = record.cached_tokens, record.reasoning_tokens
            self.cached += cached
            self.input += max(0, record.prompt_tokens - cached)
            self.reasoning += reasoning
            self.output += max(0, record.completion_tokens - reasoning)
            self.cost += record.cost_nano_usd

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
