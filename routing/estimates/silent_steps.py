"""Steps of engines that tell nothing of their own, as far as they show in how long answers took."""

from collections.abc import Iterator
from typing import Final

from protos.types import Work
from routing.contracts.policy import Ended, ReplicaView

#: With less than this between tokens, in seconds, an answer came whole: when its prompt was computed nobody knows.
LEAST_TPOT: Final = 1e-4


def is_silent(view: ReplicaView) -> bool:
    """Whether its engine says nothing of its steps, not even how much it computes in one."""
    return not view.max_num_tokens


def steps_of(report: Ended) -> Iterator[Work]:
    """What a streamed answer lets guess: a step of its prompt, and one of its tokens beside what ran there before it.

    Queueing and the network are in them, which is what a decision must know of such a replica anyhow.
    """
    ttft, output, view = report.ttft, report.output_tokens, report.decision.replica
    if ttft is None or output < 2:
        return
    tpot = (report.seconds - ttft) / (output - 1)
    if tpot < LEAST_TPOT:
        return
    fresh = max(1, report.request.prompt_tokens - report.cached_tokens)
    yield Work(round(ttft * 1e6), prefill_tokens=fresh)
    yield Work(round(tpot * 1e6), sequences=max(1, view.load.running + view.sent), context=view.load.tokens_in_flight)
