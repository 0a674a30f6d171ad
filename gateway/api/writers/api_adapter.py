"""The seam for APIs that are spoken on top of the chat path: Responses, and Anthropic's Messages.

Their requests become a chat's, so that limits, filters, routing and every kind of replica are the same for all. The
answer comes as deltas (gateway/text/parsing/delta.py), from tokens or from an upstream's chunks; a renderer writes it.
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
    """What is known of an answer when it begins. `suffix` is the request's id without its prefix, `created` in seconds
    since 1970, `model` as clients know it; `streamed` is how it goes out. `prompt_tokens` of upstreams are an estimate.
    """

    suffix: str
    created: int
    model: str
    streamed: bool
    fingerprint: str = ""
    prompt_tokens: int = 0


class Counts(msgspec.Struct, frozen=True):
    """Tokens of an answer over its choices. `cached` are part of the prompt's, `reasoning` of the completion's.

    `stopped_by` is the stop string that ended the first choice, where the gateway looked for it or an upstream told.
    """

    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0
    stopped_by: str | None = None


class Call(msgspec.Struct, frozen=True):
    """A tool call as it was written; `arguments` need not be JSON where the answer was cut short."""

    id: str
    name: str
    arguments: str


class Choice(msgspec.Struct, frozen=True):
    """One whole answer: what it consists of, in order, neighbours of a kind joined."""

    parts: tuple[Text | Reasoning | Call, ...]
    finish: FinishReason

    @property
    def text(self) -> str:
        """All that is said."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def reasoning(self) -> str:
        """All thoughts."""
        return "".join([part.text for part in self.parts if isinstance(part, Reasoning)])

    @property
    def calls(self) -> list[Call]:
        """All tool calls."""
        return [part for part in self.parts if isinstance(part, Call)]

    @property
    def entries(self) -> list[TokenEntry]:
        """The tokens of what is said, with their logprobs, where they were asked for."""
        return [entry for part in self.parts if isinstance(part, Text) for entry in part.entries]

    @property
    def finish_name(self) -> str:
        """As OpenAI names it."""
        return finish_name(self.finish, called=bool(self.calls))


def finish_name(finish: FinishReason, *, called: bool) -> str:
    """OpenAI's name of it: an answer that stopped after a call of a tool has `tool_calls`."""
    return "tool_calls" if called and finish is FinishReason.STOP else finish.value


def joined(deltas: Sequence[Delta], finish: FinishReason) -> Choice:
    """The whole of what came piece by piece."""
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
                said = [piece for piece in pieces if isinstance(piece, Text)]
                entries = [entry for piece in said for entry in piece.entries]
                parts.append(Text("".join(texts), entries, [token for piece in said for token in piece.told]))
    return Choice(tuple(parts), finish)


def _run(delta: Delta) -> object:
    """What neighbours have in common that are of one part."""
    return delta.call if isinstance(delta, CallStart | CallArguments) else type(delta)


#: What stands before a piece of JSON-escaped text, and after it.
Frame = tuple[bytes, bytes]


class Renderer(Protocol):
    """Writes one answer in an API's own words: either a stream, or the whole at once. Nothing in it waits."""

    def opening(self) -> bytes:
        """How a stream begins; called once, before everything else of it."""
        ...

    def frame(self, index: int, kind: Delta) -> Frame | None:
        """What encloses a piece of the choice, JSON-escaped, whose delta differs from that one in its text alone.

        It holds until the choice is rendered again. None: each such piece must be rendered.
        """
        ...

    def render(self, index: int, deltas: Sequence[Delta], finish: FinishReason | None) -> bytes:
        """The next events of a choice; with `finish` they are its last. Not called again for it."""
        ...

    def closing(self, counts: Counts) -> bytes:
        """How a stream ends well, after every choice has ended."""
        ...

    def broken(self, error: PenstockError) -> bytes:
        """How a stream ends in an error."""
        ...

    def whole(self, choices: Sequence[Choice], counts: Counts) -> bytes:
        """The body of an answer that is not streamed."""
        ...


class ApiAdapter(Protocol):
    """One request to such an API; made for each request, so it may keep what it needs of it."""

    #: The endpoint's name in a key's scope, in metrics and in the journal.
    endpoint: str

    async def translate(self, caller: Caller, body: bytes) -> bytes:
        """The same as a chat completion's body. Raises InvalidRequest and what else is a status for the client."""
        ...

    def renderer(self, head: AnswerHead) -> Renderer:
        """Who writes its answer."""
        ...

    async def keep(self) -> None:
        """The answer is whole, and rendered; its client gets the end once this returns. Raises nothing."""
        ...
