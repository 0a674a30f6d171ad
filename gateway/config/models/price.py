"""Token prices of a model."""

from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from protos.token_counts import TokenCounts

_Usd = Annotated[float, Meta(ge=0, le=100_000)]

#: Money is counted in whole nanodollars: 0.001 USD per million tokens is 1 nanodollar a token.
NANO = 1_000_000_000


class Price(Record, frozen=True, kw_only=True):
    """US dollars per million tokens."""

    input: Annotated[_Usd, Meta(description="Of the prompt, but for what was in the KV cache.")] = 0.0
    cached_input: Annotated[
        _Usd | None, Meta(description="Of the prompt, found in the replica's KV cache; unset: as `input`.")
    ] = None
    cache_write: Annotated[
        _Usd | None,
        Meta(description="Of the prompt, written to a provider's cache for minutes; unset: as `input`."),
    ] = None
    cache_write_1h: Annotated[
        _Usd | None,
        Meta(description="Of the prompt, written to a provider's cache for an hour; unset: as `cache_write`."),
    ] = None
    audio_input: Annotated[
        _Usd | None, Meta(description="Of sound in the prompt, as the provider counts it; unset: as `input`.")
    ] = None
    output: Annotated[_Usd, Meta(description="Of the answers.")] = 0.0
    audio_output: Annotated[
        _Usd | None, Meta(description="Of sound in the answers, as the provider counts it; unset: as `output`.")
    ] = None

    def nano(self, prompt: int, cached: int, completion: int) -> int:
        """Cost in nanodollars of token counts; `cached` of the prompt's tokens were in the KV cache."""
        of_cached = self.input if self.cached_input is None else self.cached_input
        return round(1000 * ((prompt - cached) * self.input + cached * of_cached + completion * self.output))

    def extra_nano(self, counts: TokenCounts) -> int:
        """Surcharge over `nano` for cache writes and sound, in nanodollars; negative where these are cheaper."""
        short = self.input if self.cache_write is None else self.cache_write
        long = short if self.cache_write_1h is None else self.cache_write_1h
        heard = self.input if self.audio_input is None else self.audio_input
        said = self.output if self.audio_output is None else self.audio_output
        return round(
            1000
            * (
                counts.written * (short - self.input)
                + counts.written_long * (long - self.input)
                + counts.audio_input * (heard - self.input)
                + counts.audio_output * (said - self.output)
            )
        )

    @property
    def costs(self) -> bool:
        """Whether anything has a price."""
        return any(msgspec.structs.astuple(self))


FREE = Price()
