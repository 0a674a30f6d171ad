"""The sampling parameters that chat and text completions share, with the ranges of the API reference."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from protos.errors import InvalidRequest, UnsupportedParameter
from protos.types import Sampling

MAX_STOPS = 16
MAX_STOP_CHARS = 1024
#: Engines take seeds without a sign.
_SEED_BITS: Final = 0xFFFF_FFFF_FFFF_FFFF

_Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
_Stop = Annotated[str, Meta(min_length=1, max_length=MAX_STOP_CHARS)]
_TokenId = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a streamed answer."""

    include_usage: bool | None = None
    #: Padding of chunks against guesses from their sizes. The gateway adds none, so only `false` is possible.
    include_obfuscation: bool | None = None
    #: vLLM's: every chunk has the counts so far, where the counts are wanted at all.
    continuous_usage_stats: bool | None = None


class SamplingFields(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Base of the request bodies. `top_k` and the fields after it are extensions shared by vLLM and trtllm-serve."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=0x7FFF_FFFF)] | None = None
    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    top_p: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    stop: _Stop | Annotated[list[_Stop], Meta(max_length=MAX_STOPS)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logit_bias: Annotated[dict[_TokenId, Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=1024)] | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None
    #: 0 and -1: no limit.
    top_k: Annotated[int, Meta(ge=-1, le=0x7FFF_FFFF)] | None = None
    min_p: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0.0, le=10.0)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=0x7FFF_FFFF)] | None = None
    ignore_eos: bool | None = None
    stop_token_ids: Annotated[list[_TokenId], Meta(max_length=MAX_STOPS)] | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings as a tuple."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a usage chunk. Raises InvalidRequest or UnsupportedParameter."""
        if self.stream_options is None:
            return False
        if not self.stream:
            raise InvalidRequest(
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
            )
        if self.stream_options.include_obfuscation:
            param = "stream_options.include_obfuscation"
            raise UnsupportedParameter(f"Unsupported parameter: '{param}' is not supported here.", param=param)
        return bool(self.stream_options.include_usage)

    @property
    def counts_always(self) -> bool:
        """Whether every chunk of a stream has the counts so far."""
        options = self.stream_options
        return options is not None and bool(options.include_usage) and bool(options.continuous_usage_stats)

    def sampling(self, vocab_size: int, logprobs: int | None) -> Sampling:
        """Make the engine's sampling parameters. Raises InvalidRequest for token ids outside the vocabulary."""
        if _RARE(self) == _NOTHING_RARE:
            seed = self.seed
            if seed is not None:
                seed &= _SEED_BITS
            return Sampling(temperature=self.temperature, top_p=self.top_p, seed=seed, logprobs=logprobs)
        if self.logit_bias:
            _check_ids(self.logit_bias, "logit_bias", vocab_size)
        if self.stop_token_ids:
            _check_ids(self.stop_token_ids, "stop_token_ids", vocab_size)
        return Sampling(
            n=self.n or 1,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k if self.top_k is None or self.top_k > 0 else None,
            min_p=self.min_p,
            seed=None if self.seed is None else self.seed & _SEED_BITS,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            repetition_penalty=self.repetition_penalty,
            logit_bias=self.logit_bias or {},
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=bool(self.ignore_eos),
            min_tokens=self.min_tokens or 0,
            logprobs=logprobs,
        )


_NAMES_OF_RARE: Final = (
    *("n", "presence_penalty", "frequency_penalty", "logit_bias", "top_k", "min_p", "repetition_penalty"),
    *("min_tokens", "ignore_eos", "stop_token_ids"),
)
#: Sampling parameters that few requests set; they are looked at one by one only where one is set.
_RARE: Final = attrgetter(*_NAMES_OF_RARE)
_NOTHING_RARE: Final = (None,) * len(_NAMES_OF_RARE)


def _check_ids(ids: Iterable[int], name: str, vocab_size: int) -> None:
    outside = next((token for token in ids if token >= vocab_size), None)
    if outside is not None:
        raise InvalidRequest(
            f"Invalid value for '{name}': token id {outside} is not in the vocabulary of {vocab_size}.", param=name
        )
