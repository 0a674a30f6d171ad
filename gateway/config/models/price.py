"""Token prices of a model."""

from typing import Annotated

from msgspec import Meta

from gateway.config.base import Record

_Usd = Annotated[float, Meta(ge=0, le=100_000)]

#: Money is counted in whole nanodollars: 0.001 USD per million tokens is 1 nanodollar a token.
NANO = 1_000_000_000


class Price(Record, frozen=True, kw_only=True):
    """US dollars per million tokens."""

    input: Annotated[_Usd, Meta(description="Of the prompt, but for what was in the KV cache.")] = 0.0
    cached_input: Annotated[
        _Usd | None, Meta(description="Of the prompt, found in the replica's KV cache; unset: as `input`.")
    ] = None
    output: Annotated[_Usd, Meta(description="Of the answers.")] = 0.0

    def nano(self, prompt: int, cached: int, completion: int) -> int:
        """Cost in nanodollars of token counts; `cached` of the prompt's tokens were in the KV cache."""
        of_cached = self.input if self.cached_input is None else self.cached_input
        return round(1000 * ((prompt - cached) * self.input + cached * of_cached + completion * self.output))


FREE = Price()
