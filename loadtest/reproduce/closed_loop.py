"""A closed loop on a simulated fleet: clients that send their next request when the last one has ended."""

from collections.abc import Callable

from loadtest.simulation.simulate import Simulation
from loadtest.simulation.simulated_requests import TimedRequest


class ClosedLoop(Simulation):
    """A simulation with clients instead of a trace."""

    def throughput(self, draw: Callable[[float], TimedRequest], clients: int, requests: int) -> float:
        """Return output tokens/s over `requests` requests, from the first one's arrival to the last one's end.

        `draw` makes the request that arrives at a given time.
        """
        sent, now = 0, 0.0
        while len(self._outcomes) < requests:
            while sent < min(requests, len(self._outcomes) + clients):
                self._arrive(sent, draw(now))
                sent += 1
            now = min(replica.due for replica in self._replicas)
            self._advance_to(now)
            self._serve_queues(now)
        return sum(outcome.output_tokens for outcome in self._outcomes) / max(r.last for r in self._replicas)
