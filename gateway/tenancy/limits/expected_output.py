"""Expected output tokens of a request, learned in this worker for each tenant and model."""

from gateway.caching.lru import Lru
from gateway.tenancy.limits.plan import Plan

#: Output tokens of one sequence before anything is learned for a model and tenant.
UNKNOWN_OUTPUT = 128
#: Weight of the latest answer in the moving mean; the Lua script has the same.
LEARN = 0.1
MAX_ENTRIES = 10_000


class ExpectedOutput:
    """A moving mean for each tenant and model; beyond MAX_ENTRIES the least recently used is evicted."""

    def __init__(self) -> None:
        self._means: Lru[tuple[str, str], float] = Lru(MAX_ENTRIES)

    def mean(self, plan: Plan) -> float | None:
        """The mean output tokens of one sequence; None: nothing is learned yet."""
        return self._means.get((plan.tenant, plan.model))

    def learn(self, plan: Plan, tokens: int, sequences: int) -> float:
        """Learn from answers of `tokens` over all `sequences`, each of which counts; return the new mean."""
        mean = self.mean(plan)
        each = tokens / sequences
        if mean is not None:
            each = mean + (1 - (1 - LEARN) ** sequences) * (each - mean)
        self._means.put((plan.tenant, plan.model), each)
        return each
