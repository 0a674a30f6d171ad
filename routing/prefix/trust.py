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
    compared under another factor than their own, and it would oscillate.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        #: Requests that had a prediction or a cache hit, and the moving means of both, in tokens.
        self.requests = 0
        self.predicted = 0.0
        self.cached = 0.0
        self._compared = 0
        self._sum = 0.0
        self._settled_at = float("-inf")

    def record(self, predicted_tokens: int, cached_tokens: int, now: float) -> bool:
        """Compare one request's tokens, predicted (after scaling) and actual; return whether the factor has changed."""
        if predicted_tokens <= 0 and cached_tokens <= 0:
            return False
        predicted = predicted_tokens / self.factor
        self.requests += 1
        weight = max(_WEIGHT, 1 / self.requests)
        self.predicted += weight * (predicted - self.predicted)
        self.cached += weight * (cached_tokens - self.cached)
        if predicted_tokens <= 0 or now < self._settled_at:
            return False
        self._compared += 1
        self._sum += min(1.0, cached_tokens / predicted)
        if self._compared < ENOUGH_REQUESTS:
            return False
        mean, before = self._sum / self._compared, self.factor
        self._compared, self._sum = 0, 0.0
        if mean >= TRUST_FROM:
            self.factor = 1.0
        elif mean < DISTRUST_BELOW or before < 1.0:
            self.factor = max(LEAST, mean)
        if self.factor != before:
            self._settled_at = now + SETTLE_SECONDS
        return self.factor != before
