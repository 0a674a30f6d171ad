"""One token asked of a replica, over the session that requests take: what answers it can serve them."""

from typing import Final, Protocol

from protos.errors import DeadlineExceeded, PenstockError
from protos.types import Sampling, Submit
from routing.contracts.transport import TokenStream
from routing.health.patience import Patience

#: A busy engine may let the probe wait in its queue. One that makes no steps is known as such long before.
LONGEST_SECONDS: Final = 30.0
#: Token 1 is in every vocabulary. The engine's own choice of the answer does not matter, nor does its cache's salt.
PROBE: Final = Submit("probe", [1], 1, Sampling(temperature=0.0, ignore_eos=True), cache_salt="probe")
#: The code of a replica's refusal because it drains, which is no fault.
_DRAINING: Final = "draining"


class Probe(Protocol):
    """A question to a replica, under way."""

    async def problem(self) -> str:
        """Wait for the answer; why there is none, or nothing where there is."""
        ...

    def tick(self) -> None:
        """A tick has passed; called at regular intervals of the event loop's life."""
        ...


class TokenProbe:
    """A probe that asks for a token; one that asks for text may be answered without any."""

    def __init__(self, stream: TokenStream, *, text: bool = False) -> None:
        self._stream = stream
        self._text = text
        self._patience = Patience(LONGEST_SECONDS)

    async def problem(self) -> str:
        """Wait for the answer; why there is none, or nothing where there is."""
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
        """A tick has passed."""
        if self._patience.tick():
            self._stream.fail(DeadlineExceeded(f"it was not answered within {LONGEST_SECONDS:g} s"))
