"""Requests per second that replicas of each width serve, by their step times and the requests' lengths."""

from typing import Final

from replicas.timing import Batch, StepTimer

#: Longest step, in seconds, at which a replica still serves.
LONGEST_STEP: Final = 0.25
_TRIED: Final = 24


def rate_of(timer: StepTimer, kv_tokens: int, prompt: float, output: float) -> float:
    """Return the most requests per second of one replica, whose cache holds `kv_tokens`.

    In the steady state each step computes as many prompts as answers end with it.
    """
    most = max(1, int(kv_tokens / (prompt + output)))
    best = 0.0
    for number in range(1, _TRIED + 1):
        running = max(1, most * number // _TRIED)
        prompts = running * prompt / output
        batch = Batch(
            decode=running,
            decode_context=round(running * (prompt + output / 2)),
            prefill=round(prompts),
            prefill_pairs=round(prompts * prompt / 2),
            outputs=running,
        )
        seconds = timer.step_seconds(batch)
        if seconds <= LONGEST_STEP or number == 1:
            best = max(best, running / output / seconds)
    return best
