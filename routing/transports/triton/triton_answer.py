"""Turns the responses of a model behind Triton to one request into tokens and a finish."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from observability.redacted_words import redacted_words
from protos.errors import ReplicaUnavailable
from protos.protocol_error import ProtocolError
from protos.triton_codec import Reply
from protos.types import Failure, Finish, FinishReason, Submit
from routing.transports.triton.pieces import Pieces

#: TensorRT-LLM's message for a prompt that is too long for its engine.
_TOO_LONG: Final = re.compile(r"exceeds? (?:the )?(?:maximum input length|max_input_len|max_seq_len|max_num_tokens)")
#: Triton's messages where another replica may take the request: a full queue, an unloaded model.
_ELSEWHERE: Final = re.compile(r"maximum queue size|unknown model|is not ready|[Ss]erver is stopping|shutting down")


class Answer:
    """One request's answer. `cached` tokens of the prompt were in the KV cache, once that is known.

    Where the engine gives no finish reason, an answer of `max_tokens` tokens counts as cut by its limit. An end token
    is no part of the answer: the last token is held back while it is one.
    """

    __slots__ = (
        "_block_tokens",
        "_ends",
        "_held",
        "_made",
        "_max_tokens",
        "_pieces",
        "_prompt_tokens",
        "_reason",
        "_tokens",
        "cached",
    )

    def __init__(
        self, submit: Submit, block_tokens: int, pieces: Pieces | None, ends: frozenset[int] = frozenset()
    ) -> None:
        """`block_tokens` per KV block, 0: unknown; `pieces` for text answers; `ends`: end tokens of answers in ids."""
        self._prompt_tokens, self._max_tokens = len(submit.prompt_ids), submit.max_tokens
        self._block_tokens, self._pieces = block_tokens, pieces
        self._tokens = 0
        #: The server's count of tokens, where it sends one.
        self._made = 0
        self._reason = b""
        self._ends = ends
        self._held: tuple[int, ...] = ()
        self.cached = 0

    def take(self, reply: Reply) -> Sequence[int]:
        """Return the new ids in a message, maybe none. Raises ProtocolError for invalid outputs."""
        outputs = reply.outputs
        if not outputs:
            return ()
        reused = outputs.get("kv_cache_reused_blocks")
        if reused:
            self.cached = min(max(0, reused[0]) * self._block_tokens, self._prompt_tokens)
        if self._pieces is None:
            ids = _ids(outputs)
            return self._without_end(ids) if self._ends and ids else self._counted(ids)
        made, reason = outputs.get("num_output_tokens"), outputs.get("finish_reason")
        self._made += made[0] if made else 0
        self._reason = reason[0] if reason else b""
        return self._counted(self._pieces.feed(_text(outputs)))

    def end(self) -> tuple[Sequence[int], Finish]:
        """Return the ids that were held back, and the answer's finish."""
        last = self._counted(self._pieces.flush()) if self._pieces is not None else ()
        cut = self._reason == b"length" if self._reason else max(self._made, self._tokens) >= self._max_tokens
        reason = FinishReason.LENGTH if cut and not self._held else FinishReason.STOP
        return last, Finish(reason, self._prompt_tokens, self.cached, self._tokens)

    def _counted(self, ids: Sequence[int]) -> Sequence[int]:
        self._tokens += len(ids)
        return ids

    def _without_end(self, ids: Sequence[int]) -> Sequence[int]:
        """Return the held-back and new ids up to those that may be the end, which are held back."""
        ids = (*self._held, *ids)
        self._held = ids[-1:] if ids[-1] in self._ends else ()
        return self._counted(ids[: len(ids) - len(self._held)])


def error_of(message: str) -> Failure | ReplicaUnavailable:
    """Return the error for a stream's error message, without its words, which may quote the prompt."""
    if _ELSEWHERE.search(message):
        error = ReplicaUnavailable("The replica does not take the request now.")
        error.detail = redacted_words(message)
        return error
    return Failure("context_length_exceeded" if _TOO_LONG.search(message) else "engine_error", redacted_words(message))


def _ids(outputs: Mapping[str, Sequence[Any]]) -> Sequence[int]:
    """Return one sequence's new ids, without the server's padding to the longest one."""
    ids, length = outputs.get("output_ids", ()), outputs.get("sequence_length")
    if not length:
        return ids
    if not 0 <= length[0] <= len(ids):
        raise ProtocolError(f"sequence_length is {length[0]}, of {len(ids)} ids")
    return ids[: length[0]]


def _text(outputs: Mapping[str, Sequence[Any]]) -> str:
    texts = outputs.get("text_output")
    if not texts:
        return ""
    return bytes(texts[0]).decode(errors="replace")
