"""Whether what was said to be cached was: a prediction that lies is worse than none."""

#: Requests with a prediction that are weighed before anything follows from them.
ENOUGH_REQUESTS = 20
#: Below this mean of actual over predicted tokens an index lies; from this on, it is right again.
LYING = 0.5
RIGHT = 0.8
#: However much it lies, predictions keep some weight: they could not be seen to be right again without.
LEAST = 0.05
#: After a change of the factor, predictions that were made before it come in for a while, and are not weighed.
SETTLE_SECONDS = 30.0
#: Of the moving means, the weight of a request.
_WEIGHT = 0.05


class Trust:
    """Compares predicted with actual cached tokens of one replica; `factor` is what its predictions are scaled by.

    The factor stands still while requests are weighed under it. If it followed each of them, those on their way would
    be weighed by a factor that was not theirs, and it would swing.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        #: Requests that had a prediction or found something, and the moving means of both, in tokens.
        self.requests = 0
        self.predicted = 0.0
        self.cached = 0.0
        self._weighed = 0
        self._sum = 0.0
        self._settled_at = float("-inf")

    def told(self, predicted_tokens: int, cached_tokens: int, now: float) -> bool:
        """One request's tokens, as predicted after scaling and as found; whether the factor has changed."""
        if predicted_tokens <= 0 and cached_tokens <= 0:
            return False
        said = predicted_tokens / self.factor
        self.requests += 1
        weight = max(_WEIGHT, 1 / self.requests)
        self.predicted += weight * (said - self.predicted)
        self.cached += weight * (cached_tokens - self.cached)
        if predicted_tokens <= 0 or now < self._settled_at:
            return False
        self._weighed += 1
        self._sum += min(1.0, cached_tokens / said)
        if self._weighed < ENOUGH_REQUESTS:
            return False
        mean, before = self._sum / self._weighed, self.factor
        self._weighed, self._sum = 0, 0.0
        if mean >= RIGHT:
            self.factor = 1.0
        elif mean < LYING or before < 1.0:
            self.factor = max(LEAST, mean)
        if self.factor != before:
            self._settled_at = now + SETTLE_SECONDS
        return self.factor != before
