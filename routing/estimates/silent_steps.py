"""Infers steps of engines that report none from how long their answers took."""

from collections.abc import Iterator
from typing import Final

from protos.types import Work
from routing.contracts.policy import Ended, ReplicaView

#: With less than this between tokens, in seconds, an answer came whole and does not show when its prompt was computed.
LEAST_TPOT: Final = 1e-4


def is_silent(view: ReplicaView) -> bool:
    """Whether the engine reports nothing of its steps, not even their size."""
    return not view.max_num_tokens


def steps_of(report: Ended) -> Iterator[Work]:
    """Yield the steps inferred from a streamed answer: one of its prompt, one of its tokens beside what already ran.

    They include queueing and the network, which decisions about such a replica need anyhow.
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
