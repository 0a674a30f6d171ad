"""Bucket bounds of histograms. Those with a name in OpenTelemetry's conventions contain all bounds of these."""

from typing import Final

from observability import gaps

#: OpenTelemetry's bounds of `gen_ai.server.request.duration`, `gen_ai.server.time_to_first_token`,
#: `gen_ai.server.time_per_output_token` and `gen_ai.client.token.usage`.
GENAI_DURATION: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
GENAI_FIRST_TOKEN: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
GENAI_PER_TOKEN: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
GENAI_TOKENS: Final = tuple(float(4**power) for power in range(14))

#: Seconds of a whole answer, and of an engine's part of it: up to a request's longest life by default.
DURATION: Final = (*GENAI_DURATION, 163.84, 327.68, 655.36)
FIRST_TOKEN: Final = tuple(sorted({*GENAI_FIRST_TOKEN, 0.15, 0.35, 1.5, 20.0, 40.0, 80.0}))
INTER_TOKEN: Final = gaps.BOUNDS
PER_TOKEN: Final = tuple(sorted({*GENAI_PER_TOKEN, 0.0025, 0.005, 0.0075, 0.015, 0.02, 0.03, 0.04, 0.06}))
QUEUE: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
#: Seconds in the gateway: its own work is far below a millisecond, waits may take minutes.
GATEWAY: Final = (*(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05), *(0.1, 0.5, 1.0, 5.0, 30.0))
FILTER: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
TOKENS: Final = tuple(
    float(2**power) for power in (0, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 22, 24, 26)
)
STORE: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
LOOP_LAG: Final = (0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
