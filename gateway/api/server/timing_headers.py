"""Headers that give the timing of an answer in one piece, in milliseconds."""

import time

from gateway.inference.generation import Generation

_Headers = list[tuple[bytes, bytes]]


def timing_headers(generation: Generation) -> _Headers:
    """Make the headers: total time under OpenAI's name, time in the admission queue, and time in the engine."""
    timing, seconds = generation.timing, time.monotonic() - generation.request.arrived
    return [
        (b"x-penstock-queue-ms", b"%.3f" % (timing.queue_us / 1000)),
        (b"x-penstock-engine-ms", b"%.3f" % ((timing.prefill_us + timing.decode_us) / 1000)),
        (b"x-penstock-wait-ms", b"%.3f" % (generation.admission.waited_seconds * 1000)),
        (b"openai-processing-ms", b"%d" % (seconds * 1000)),
    ]


def own_headers(generation: Generation) -> _Headers:
    """Make the headers that need no engine clock, since upstreams report none."""
    return [
        (b"x-penstock-wait-ms", b"%.3f" % (generation.admission.waited_seconds * 1000)),
        (b"openai-processing-ms", b"%d" % ((time.monotonic() - generation.request.arrived) * 1000)),
    ]
