"""Gauges of the configuration in use, and of the last reload."""

from gateway.reload.messages import Outcome
from observability.metrics import declarations as declared
from observability.metrics.snapshot import Numbers


class ConfigurationGauges:
    """What the supervisor has said last; nothing in a worker that has no supervisor."""

    outcome: Outcome | None = None

    def collect(self, numbers: Numbers) -> None:
        """Add the gauges to the numbers."""
        outcome = self.outcome
        if outcome is None:
            return
        numbers.set(declared.CONFIG_WORKERS, 1, outcome.digest)
        numbers.set(declared.CONFIG_RELOADED, int(outcome.result != "refused"))
        numbers.set(declared.CONFIG_RELOADED_AT, outcome.at)
