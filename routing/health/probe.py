"""Health probes: ask a replica for one token over the same session that requests use."""

from typing import Final, Protocol

from protos.errors import DeadlineExceeded, PenstockError
from protos.types import Sampling, Submit
from routing.contracts.transport import TokenStream
from routing.health.patience import Patience

#: Timeout in seconds. A busy engine may queue the probe; one that makes no steps is detected much earlier.
LONGEST_SECONDS: Final = 30.0
#: Token 1 is in every vocabulary. Neither the answered token nor the cache salt matters.
PROBE: Final = Submit("probe", [1], 1, Sampling(temperature=0.0, ignore_eos=True), cache_salt="probe")
#: Error code of a draining replica's refusal, which is no fault.
_DRAINING: Final = "draining"


class Probe(Protocol):
    """A probe in flight."""

    async def problem(self) -> str:
        """Wait for the answer; return why there is none, or an empty string."""
        ...

    def tick(self) -> None:
        """Count a tick; called at regular intervals in which the event loop ran."""
        ...


class TokenProbe:
    """A probe that asks for one token; with `text` an answer without tokens is good too."""

    def __init__(self, stream: TokenStream, *, text: bool = False) -> None:
        self._stream = stream
        self._text = text
        self._patience = Patience(LONGEST_SECONDS)

    async def problem(self) -> str:
        """Wait for the answer; return why there is none, or an empty string."""
        answered = self._text
        try:
            while True:
                for _, token_ids, _, finish in await self._stream.receive():
                    answered = answered or bool(token_ids)
                    if finish is None:
                        continue
                    if finish.failure is not None and finish.failure.code != _DRAINING:
                        return f"{finish.failure.code}: {finish.failure.message}"
                    return "" if answered else f"it ended ({finish.reason.value}) without a token"
        except PenstockError as error:
            return error.message
        finally:
            self._stream.close()

    def tick(self) -> None:
        if self._patience.tick():
            self._stream.fail(DeadlineExceeded(f"it was not answered within {LONGEST_SECONDS:g} s"))
