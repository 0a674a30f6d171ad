"""Plans the sequences of a simulated request before they run: their tokens and their ends."""

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from protos.types import FinishReason, Handoff, Submit
from replicas.engines.answer_lengths import Corpus, Walk, prompt_key
from replicas.engines.answer_scripts import Script

if TYPE_CHECKING:
    from replicas.engines.guided.composition import Composed

#: Most tokens of a guided answer, which is composed before it is emitted.
MAX_GUIDED_TOKENS = 16384
_STATE = struct.Struct("<4sQ")
_STATE_MAGIC = b"sim1"


@dataclass(frozen=True, slots=True)
class SequencePlan:
    """The plan of one sequence of an attempt: `total` tokens of its walk, after those of earlier attempts."""

    walk: Walk
    total: int
    reason: FinishReason


class SequencePlanner:
    """Makes the plans. The same prompt and seed always give the same tokens."""

    def __init__(
        self,
        corpus: Corpus,
        rng: random.Random,
        *,
        max_sequence_tokens: int,
        output_tokens: int | None = None,
        script: Script | None = None,
    ) -> None:
        """`output_tokens` fixes the length of answers unless something else does; `rng` draws missing seeds."""
        #: Most tokens of a sequence, prompt and answer together.
        self.max_sequence_tokens = max_sequence_tokens
        self._corpus, self._random, self._script = corpus, rng, script
        self._output_tokens = output_tokens

    def seeded(self, request: Submit) -> Submit:
        """Return the request with its effective seed."""
        sampling = msgspec.structs.replace(request.sampling, seed=self._seed(request))
        return msgspec.structs.replace(request, sampling=sampling)

    def walks(self, request: Submit, seed: int) -> list[Walk]:
        """Return the walks of its sequences, for answers that are neither scripted nor guided."""
        # An adapter makes it another model, with other answers.
        key = prompt_key(_prompt(request), seed ^ (crc32(request.adapter.name.encode()) if request.adapter else 0))
        return [Walk.of(self._corpus, key, request.sequence + k) for k in range(request.sampling.n)]

    def keys(self, request: Submit) -> list[bytes]:
        """Return the keys from which a seeded request's answers are derived, however they are made."""
        return [walk.key for walk in self.walks(request, self._seed(request))]

    def scripted(self, request: Submit) -> list[int] | None:
        """Return the scripted answer, if there is one."""
        return None if self._script is None else self._script.answer(_prompt(request))

    def room(self, request: Submit) -> int:
        """Return the number of tokens that fit after the prompt."""
        room = min(request.max_tokens, self.max_sequence_tokens - len(request.prompt_ids))
        return room if request.guide is None else min(room, max(1, MAX_GUIDED_TOKENS - request.generated))

    def of(
        self, request: Submit, composed: "Sequence[Composed] | None" = None
    ) -> tuple[list[SequencePlan], Handoff | None]:
        """Return the plans of its sequences, and the handoff of a prefill. `composed` are guided answers."""
        generated, seed = request.generated, self._seed(request)
        walks, room = self.walks(request, seed), self.room(request)
        ceiling = generated + room
        ends: list[int | None] = [self._output_tokens] * len(walks)
        if composed is not None:
            for k, (walk, answer) in enumerate(zip(walks, composed, strict=True)):
                walk.tokens = list(answer.tokens)
                ends[k] = len(answer.tokens) if answer.whole else ceiling
        elif (scripted := self.scripted(request)) is not None:
            for walk in walks:
                walk.tokens = list(scripted)
            ends = [len(scripted)] * len(walks)
        handoff = None
        if request.prefill_only:
            for walk in walks:
                walk.extend(generated + 1)
            firsts = tuple(walk.tokens[generated] for walk in walks)
            handoff = Handoff(_STATE.pack(_STATE_MAGIC, seed % 2**64), firsts)
        limit = 1 if request.prefill_only else room
        courses = []
        for walk, end in zip(walks, ends, strict=True):
            if composed is not None and end is not None:
                natural = max(0, end - generated)
            else:
                natural = self._natural(walk, end, ceiling, request)
            natural = self._stopped(walk, natural, ceiling, request)
            stops = natural < limit
            reason = FinishReason.STOP if stops else FinishReason.LENGTH
            courses.append(SequencePlan(walk, min(natural, limit), reason))
        return courses, handoff

    def _natural(self, walk: Walk, end: int | None, ceiling: int, request: Submit) -> int:
        """Return this attempt's tokens until the answer ends by itself; `ceiling` or more: it does not."""
        sampling, generated = request.sampling, request.generated
        if sampling.ignore_eos:
            return ceiling - generated
        whole = walk.natural_length(ceiling) if end is None else end
        return max(0, whole - generated, sampling.min_tokens)

    def _stopped(self, walk: Walk, length: int, ceiling: int, request: Submit) -> int:
        """Return `length` cut at the request's stop tokens."""
        sampling, generated = request.sampling, request.generated
        if sampling.stop_token_ids:
            end = min(ceiling, generated + length)
            walk.extend(end)
            for position in range(generated + sampling.min_tokens, end):
                if walk.tokens[position] in sampling.stop_token_ids:
                    return position - generated
        return length

    def _seed(self, request: Submit) -> int:
        seed = seed_of(request.handoff) if request.handoff else request.sampling.seed
        if seed is None:
            return 0 if request.sampling.temperature == 0 else self._random.getrandbits(63)
        return seed


def seed_of(handoff: Handoff) -> int | None:
    """Return the seed that the prefill engine used, or None when the state is not a simulated engine's."""
    if len(handoff.opaque_state) != _STATE.size:
        return None
    magic, seed = _STATE.unpack(handoff.opaque_state)
    return int(seed) if magic == _STATE_MAGIC else None


def _prompt(request: Submit) -> Sequence[int]:
    """Return the prompt without what an earlier attempt has generated."""
    return request.prompt_ids[: len(request.prompt_ids) - request.generated]
