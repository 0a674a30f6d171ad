"""Trust in cache predictions: compares predicted with actual cached tokens and scales bad predictions down."""

#: Requests with a prediction that are compared before the factor may change.
ENOUGH_REQUESTS = 20
#: Below this ratio of actual to predicted tokens predictions are scaled down; from the other one on they are trusted.
DISTRUST_BELOW = 0.5
TRUST_FROM = 0.8
#: Lower bound of the factor: without any weight predictions could never prove right again.
LEAST = 0.05
#: Seconds after a change of the factor in which results of older predictions still come in and are ignored.
SETTLE_SECONDS = 30.0
#: Weight of one request in the moving means.
_WEIGHT = 0.05


class Trust:
    """Compares predicted with actual cached tokens of one replica; `factor` scales its predictions.

    The factor is constant while requests are compared under it. If it followed each of them, those in flight would be
    compared under another factor than their own, and it would oscillate. Compared requests are averaged together: a
    moving mean for every request would cost more than the comparison.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        #: Requests that had a prediction or a cache hit, and the moving means of both, in tokens.
        self._means = (0, 0.0, 0.0)
        #: The requests that are compared under the factor and not in the means yet: their sums of predicted (scaled)
        #: and actual tokens, and of the ratios.
        self._compared = 0
        self._predicted = 0
        self._cached = 0
        self._sum = 0.0
        self._settled_at = float("-inf")

    @property
    def requests(self) -> int:
        """Number of requests that had a prediction or a cache hit."""
        return self._means[0] + self._compared

    @property
    def predicted(self) -> float:
        """Moving mean of the predicted tokens, before scaling."""
        return self._moved(self._compared, self._predicted, self._cached)[1]

    @property
    def cached(self) -> float:
        """Moving mean of the actual tokens."""
        return self._moved(self._compared, self._predicted, self._cached)[2]

    def record(self, predicted_tokens: int, cached_tokens: int, now: float) -> bool:
        """Compare one request's tokens, predicted (after scaling) and actual; return whether the factor has changed."""
        if predicted_tokens <= 0 or now < self._settled_at:
            if predicted_tokens > 0 or cached_tokens > 0:
                self._means = self._moved(1, predicted_tokens, cached_tokens)
            return False
        self._compared += 1
        self._predicted += predicted_tokens
        self._cached += cached_tokens
        predicted = predicted_tokens / self.factor
        self._sum += cached_tokens / predicted if cached_tokens < predicted else 1.0
        return self._compared >= ENOUGH_REQUESTS and self._compare(now)

    def _compare(self, now: float) -> bool:
        """Set the factor by the requests compared under the present one; return whether it has changed."""
        mean, before = self._sum / self._compared, self.factor
        self._means = self._moved(self._compared, self._predicted, self._cached)
        self._compared = self._predicted = self._cached = 0
        self._sum = 0.0
        if mean >= TRUST_FROM:
            self.factor = 1.0
        elif mean < DISTRUST_BELOW or before < 1.0:
            self.factor = max(LEAST, mean)
        if self.factor != before:
            self._settled_at = now + SETTLE_SECONDS
        return self.factor != before

    def _moved(self, count: int, predicted: int, cached: int) -> tuple[int, float, float]:
        """Return the number of requests and the means with `count` more, of which these are the sums."""
        if not count:
            return self._means
        before, mean_predicted, mean_cached = self._means
        requests = before + count
        weight = max(1.0 - (1.0 - _WEIGHT) ** count, count / requests)
        return (
            requests,
            mean_predicted + weight * (predicted / self.factor / count - mean_predicted),
            mean_cached + weight * (cached / count - mean_cached),
        )
