"""The API adapter seam: APIs translated to chat completions (OpenAI's Responses, Anthropic's Messages).

Their requests become chat bodies, so that limits, filters, routing and replicas are the same for all. The answer comes
as deltas (gateway/text/parsing/delta.py), from tokens or from an upstream's chunks; a renderer writes them.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

import msgspec

from gateway.tenancy.tenants.caller import Caller
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from gateway.text.sequence_text import TokenEntry
from protos.errors import PenstockError
from protos.types import FinishReason


class AnswerHead(msgspec.Struct, frozen=True):
    """The facts of an answer that are known when it begins. `suffix` is the request's id without its prefix, `created`
    in seconds since 1970, `model` the client's name of it, `streamed` whether events are written. An upstream's
    `prompt_tokens` are an estimate.
    """

    suffix: str
    created: int
    model: str
    streamed: bool
    fingerprint: str = ""
    prompt_tokens: int = 0


class Counts(msgspec.Struct, frozen=True):
    """Token counts of an answer over all choices. `cached` and `written` (to a provider's cache) are parts of `prompt`,
    `reasoning` is one of `completion`.

    `stopped_by` is the stop string that ended the first choice, where the gateway found it or an upstream reported it.
    """

    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0
    stopped_by: str | None = None
    written: int = 0


class Call(msgspec.Struct, frozen=True):
    """A tool call; `arguments` need not be JSON where the answer was cut short."""

    id: str
    name: str
    arguments: str


class Choice(msgspec.Struct, frozen=True):
    """One whole answer: its parts in order, neighbours of one kind joined."""

    parts: tuple[Text | Reasoning | Call, ...]
    finish: FinishReason

    @property
    def text(self) -> str:
        """The text for the user."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def reasoning(self) -> str:
        """The reasoning."""
        return "".join([part.text for part in self.parts if isinstance(part, Reasoning)])

    @property
    def calls(self) -> list[Call]:
        """The tool calls."""
        return [part for part in self.parts if isinstance(part, Call)]

    @property
    def entries(self) -> list[TokenEntry]:
        """The tokens of the text with their logprobs, where they were asked for."""
        return [entry for part in self.parts if isinstance(part, Text) for entry in part.entries]

    @property
    def finish_name(self) -> str:
        """The finish reason by OpenAI's name."""
        return finish_name(self.finish, called=bool(self.calls))


def finish_name(finish: FinishReason, *, called: bool) -> str:
    """Give OpenAI's name of a finish reason: an answer that stopped after a tool call has `tool_calls`."""
    return "tool_calls" if called and finish is FinishReason.STOP else finish.value


def joined(deltas: Sequence[Delta], finish: FinishReason) -> Choice:
    """Join deltas to a whole choice."""
    parts: list[Text | Reasoning | Call] = []
    for _, run in groupby(deltas, _run):
        pieces = list(run)
        texts = [piece.text for piece in pieces if not isinstance(piece, CallStart)]
        match pieces[0]:
            case CallStart(_, call_id, name):
                parts.append(Call(call_id, name, "".join(texts)))
            case Reasoning():
                parts.append(Reasoning("".join(texts)))
            case Text():
                text_pieces = [piece for piece in pieces if isinstance(piece, Text)]
                entries = [entry for piece in text_pieces for entry in piece.entries]
                parts.append(Text("".join(texts), entries, [token for piece in text_pieces for token in piece.told]))
    return Choice(tuple(parts), finish)


def _run(delta: Delta) -> object:
    """Give the key that neighbouring deltas of one part share."""
    return delta.call if isinstance(delta, CallStart | CallArguments) else type(delta)


#: The bytes around a piece of JSON-escaped text, which is put between each two of them: `text.join(frame)`.
Frame = tuple[bytes, ...]


class Renderer(Protocol):
    """Writes one answer in an API's format: either a stream, or the whole at once. It never waits."""

    def opening(self) -> bytes:
        """Write the beginning of a stream; called once, before everything else."""
        ...

    def frame(self, index: int, kind: Delta) -> Frame | None:
        """Give the frame of JSON-escaped text for a choice, where a delta like `kind` differs in its text alone.

        The frame holds until the choice is rendered again. None: each delta must be rendered.
        """
        ...

    def render(self, index: int, deltas: Sequence[Delta], finish: FinishReason | None) -> bytes:
        """Write the next events of a choice; with `finish` they are its last."""
        ...

    def closing(self, counts: Counts) -> bytes:
        """Write the end of a successful stream, after every choice has ended."""
        ...

    def broken(self, error: PenstockError) -> bytes:
        """Write the end of a stream that failed."""
        ...

    def whole(self, choices: Sequence[Choice], counts: Counts) -> bytes:
        """Write the body of an answer that is not streamed."""
        ...


class ApiAdapter(Protocol):
    """The translation of one request; made for each request, so it may keep state."""

    #: The endpoint's name in a key's scope, in metrics and in the journal.
    endpoint: str
    #: What became of parameters that are hints, or that no model here can honour, for the answer's headers.
    adjusted: tuple[str, ...]

    async def translate(self, caller: Caller, body: bytes) -> bytes:
        """Translate the body to a chat completion's. Raises InvalidRequest and other errors with a status."""
        ...

    def renderer(self, head: AnswerHead) -> Renderer:
        """Make the renderer of the answer."""
        ...

    async def store_answer(self) -> None:
        """Store the rendered answer; the client gets the end once this returns.

        Raises PenstockError where it must be stored and cannot: the client gets that instead of the end.
        """
        ...
