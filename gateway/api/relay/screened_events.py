"""Screen every text of a relayed stream."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.api.relay.answer_texts import AnswerTexts, StreamedText
from gateway.api.relay.event_shapes import Shapes
from gateway.api.relay.relayed_strings import (
    Found,
    Item,
    Kind,
    Order,
    Path,
    choices_of,
    decoded,
    encoded,
    order_of,
    placed,
    strings_beside,
    strings_of,
    unreadable,
    without_calls,
)
from protos.types import FinishReason

_DONE: Final = b"data: [DONE]\n\n"
_CUT: Final = FinishReason.CONTENT_FILTER.value
_MARK: Final = b"\xef\xbb\xbf"
#: Comments, and event fields that no client takes for data; unknown fields are dropped.
_LINES: Final = (b":", b"event:", b"id:", b"retry:")
#: Members of the upstream's chunks that chunks of ours repeat.
_HEAD: Final = ("id", "object", "created", "model", "system_fingerprint")
#: Bounds on the choices of an answer, and on the characters of a name that are remembered.
_MOST_CHOICES: Final = 1024
_MOST_NAME: Final = 256


class _Fed:
    """A piece of a text in an event, and what is shown in its place."""

    __slots__ = ("_key", "container", "piece", "shown", "text")

    def __init__(self, text: StreamedText, found: Found, piece: str) -> None:
        self.text = text
        self.container = found.container
        self._key = found.key
        self.piece = piece
        self.shown = found.container[found.key] = text.feed(piece)

    def add(self, rest: str) -> None:
        """Add more text that may be shown."""
        self.shown = self.container[self._key] = self.shown + rest


class _Choice:
    """One choice of the answer. `over`: nothing more of it is sent; `ended`: its upstream has finished it."""

    __slots__ = ("calls", "ended", "index", "last", "names", "over", "tails", "texts")

    def __init__(self, index: int) -> None:
        self.index = index
        #: Open texts. An answer may have thousands, so those that end must be found without a scan of all.
        self.texts: tuple[dict[Path, StreamedText], ...] = tuple({} for _ in Order)
        #: The end of each text that seemed to be over.
        self.tails: dict[Path, str] = {}
        #: Tool calls by their places, with their ids.
        self.calls: dict[Path, str] = {}
        #: The names so far.
        self.names: dict[Path, str] = {}
        #: The text that was alone in the last event.
        self.last: StreamedText | None = None
        self.over = self.ended = False

    def texts_before(self, order: Order | None = None) -> list[StreamedText]:
        """List the open texts that come before `order`, or all."""
        return [text for texts in self.texts[:order] for text in texts.values()]


class _Entry:
    """A choice in an event while it is screened. `rests` are sent before it; `alone`: it has nothing else."""

    __slots__ = ("alone", "cut", "cut_in", "fed", "more", "node", "rests")

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node
        self.fed: list[_Fed] = []
        self.rests: dict[Path, str] = {}
        #: Whether it has more than pieces of text.
        self.more = False
        #: The first thing that was cut off, and its place in the node.
        self.cut: Order | None = None
        self.cut_in: Any = None
        self.alone: _Fed | None = None

    @property
    def empty(self) -> bool:
        """Whether none of its text is shown and it has nothing else."""
        came = any(fed.piece for fed in self.fed)
        return (came or self.cut is not None) and not self.more and not any(fed.shown for fed in self.fed)

    def cuts(self, order: Order, container: Any) -> None:
        """Note that something has been cut off."""
        if self.cut is None:
            self.cut, self.cut_in = order, container if order is Order.CALL else None


class ScreenedEvents:
    """Screens a stream of events; the result does not depend on how texts are cut into events.

    Each place of a choice that gets pieces of text is a text of its own, held back as its screen requires. Held text is
    sent when the choice ends, or when the model goes on to something else: from reasoning to text, to a tool call, to
    the next call. A choice that is cut off ends with `content_filter`. Logprobs, token ids and audio are left out,
    since they would show what is held back or replaced. Unknown members beside the `delta` are screened string by
    string.

    Held text is not sent when an upstream breaks off: its end is unknown.
    """

    def __init__(self, texts: AnswerTexts, count: int | None, *, usage: bool) -> None:
        """`count` choices are expected, if that is known; `usage`: the client has asked for the counts."""
        self._texts = texts
        self._count = count
        self._usage = usage
        self._choices: dict[int, _Choice] = {}
        self._shapes = Shapes()
        self._head: dict[str, Any] = {}
        #: Whether the answer is a text completion's, not a chat's.
        self._plain = False

    @property
    def cut(self) -> bool:
        """Whether every choice is over while the upstream still generates one that was cut off."""
        choices = self._choices.values()
        return (
            self._count is not None
            and len(choices) >= self._count
            and all(choice.over for choice in choices)
            and not all(choice.ended for choice in choices)
        )

    async def feed(self, data: bytes) -> bytes:
        """Screen whole events; return what may be sent. Raises FilterFailed."""
        if data.find(b"\n\n") == len(data) - 2:
            return await self._event(data[:-2])
        return b"".join([await self._event(event) for event in data.split(b"\n\n") if event])

    async def end(self) -> bytes:
        """Release the held text of an answer that the upstream has ended. Raises FilterFailed."""
        sent = b""
        for choice in self._choices.values():
            if not choice.over:
                entry = _Entry({})
                await self._finish(choice, entry, choice.texts_before())
                choice.over = choice.ended = True
                sent += self._rests(choice, entry)
                if entry.cut is not None:
                    sent += self._cut(choice)
        return sent

    def closing(self, usage: Mapping[str, object]) -> bytes:
        """Make the end of an answer that was cut off."""
        if not self._usage:
            return _DONE
        return b"data: " + encoded(self._head | {"choices": [], "usage": usage}) + b"\n\n" + _DONE

    async def _event(self, event: bytes) -> bytes:
        for shape in self._shapes.known:
            piece = shape.piece(event)
            if piece is not None:
                text = shape.text
                choice = self._choices[text.choice]
                if choice.last is not text or choice.over:
                    break
                shown = text.feed(piece)
                if text.due:
                    shown = await text.settle()
                sent = shape.with_text(shown) if shown else b""
                return sent if not text.blocked else sent + await self._cut_off(choice)
        lines, data = _lines(event)
        if not data:
            return lines + b"\n" if lines else b""
        if data == b"[DONE]":
            return await self.end() + lines + _DONE
        return await self._chunk(event, lines, data)

    async def _chunk(self, event: bytes, lines: bytes, data: bytes) -> bytes:
        chunk = decoded(data)
        choices = choices_of(chunk)
        self._head = {name: chunk[name] for name in _HEAD if name in chunk}
        ends = self._screen_beside(chunk)
        before = after = b""
        kept: list[dict[str, Any]] = []
        alone: _Fed | None = None
        for node in choices or ():
            choice = self._choice(node.get("index", 0))
            if choice.over:
                choice.ended = choice.ended or bool(node.get("finish_reason"))
                continue
            entry = _Entry(node)
            await self._screen(choice, entry)
            before += self._rests(choice, entry)
            if entry.cut is not None and not choice.ended:
                after += self._cut(choice)
            if choice.ended or not entry.empty:
                kept.append(node)
            alone = entry.alone
        if choices is not None:
            chunk["choices"] = kept
        sent = before + after
        if kept or not choices or chunk.get("usage") is not None:
            sent = b"%b%bdata: %b\n\n%b" % (before, lines, encoded(chunk), after)
        if ends:
            for choice in self._choices.values():
                if not choice.over:
                    sent += await self._cut_off(choice)
        elif alone is not None and choices is not None and len(choices) == 1 and not lines:
            chunk["choices"] = choices
            self._shapes.learn(event, chunk, alone.container, alone.text, alone.piece)
        return sent

    async def _screen(self, choice: _Choice, entry: _Entry) -> None:
        """Screen one choice of an event."""
        node = entry.node
        reason = node.get("finish_reason")
        self._plain = self._plain or "text" in node
        await self._begin_calls(choice, entry)
        reached, named = Order.THOUGHT, False
        for found in strings_of(node):
            value = found.container[found.key]
            if found.kind is Kind.OTHER:
                entry.more = entry.more or found.path[0] in ("delta", "message")
                continue
            order = order_of(found.path)
            if order > reached and value and found.path[0] in ("delta", "message", "text"):
                reached = order
                await self._finish(choice, entry, choice.texts_before(order))
            if entry.cut is not None and (order > entry.cut or order is Order.CALL):
                found.container[found.key] = ""
            elif found.kind is Kind.WHOLE:
                named = named or order is Order.CALL
                self._screen_whole(choice, entry, found, value)
            else:
                fed = _Fed(self._text(choice, order, found.path), found, value)
                entry.fed.append(fed)
                if fed.text.due:
                    fed.add(await fed.text.settle())
                if fed.text.blocked:
                    entry.cuts(order, found.container)
        came = [fed for fed in entry.fed if fed.piece]
        choice.last = came[0].text if len(came) == 1 else None
        if entry.cut is not None or reason:
            await self._finish(choice, entry, choice.texts_before())
            choice.over, choice.ended = True, bool(reason)
            if entry.cut is not None:
                without_calls(node, entry.cut_in)
                node["finish_reason"] = _CUT if reason else None
        elif len(entry.fed) == len(came) == 1 and not named:
            entry.alone = came[0]

    def _screen_whole(self, choice: _Choice, entry: _Entry, found: Found, value: str) -> None:
        order = order_of(found.path)
        if found.path[-1] == "name" and order is Order.CALL:
            # A name comes at once. If it does not, all of it so far is screened, and what has been shown must still
            # stand.
            before = choice.names.get(found.path, "")
            if value == before:
                before = ""
            stands = self._texts.whole(choice.index, before)[0] if before else ""
            shown, cut = self._texts.whole(choice.index, before + value)
            choice.names[found.path] = (before + value)[-_MOST_NAME:]
            cut = cut or not shown.startswith(stands)
            shown = "" if cut else shown[len(stands) :]
        else:
            shown, cut = self._texts.whole(choice.index, value)
        found.container[found.key] = shown
        entry.more = entry.more or (bool(shown) and found.path[0] in ("delta", "message"))
        if cut:
            entry.cuts(order, found.container)

    def _screen_beside(self, chunk: dict[str, Any]) -> bool:
        """Screen what is beside the choices; return whether that ends them all."""
        ends = False
        for found in strings_beside(chunk):
            shown, cut = self._texts.whole(0, found.container[found.key])
            found.container[found.key] = shown
            ends = ends or cut
        return ends

    async def _begin_calls(self, choice: _Choice, entry: _Entry) -> None:
        """End the calls before one that begins."""
        delta = entry.node.get("delta")
        calls = delta.get("tool_calls") if isinstance(delta, dict) else None
        if not isinstance(calls, list):
            return
        here: set[Path] = set()
        begun = False
        for place, call in enumerate(calls):
            if not isinstance(call, dict):
                raise unreadable("its answer's tool calls are not the API's")
            index, call_id = call.get("index"), call.get("id")
            step = Item(index) if type(index) is int else Item(None, place)
            path: Path = ("delta", "tool_calls", step)
            here.add(path)
            known = choice.calls.get(path)
            function = call.get("function")
            # Some upstreams send a new id with every piece, and some number no calls; a new call has a name, too.
            named = isinstance(function, dict) and bool(function.get("name"))
            if known is None or (named and isinstance(call_id, str) and call_id and call_id != known):
                begun = True
                choice.calls[path] = call_id if isinstance(call_id, str) else ""
                if known is not None:
                    choice.names = {at: name for at, name in choice.names.items() if at[:3] != path}
                    await self._finish(
                        choice, entry, [text for at, text in choice.texts[Order.CALL].items() if at[:3] == path]
                    )
                    choice.tails = {at: tail for at, tail in choice.tails.items() if at[:3] != path}
        if begun:
            before = [text for at, text in choice.texts[Order.CALL].items() if at[:3] not in here]
            await self._finish(choice, entry, before)

    async def _finish(self, choice: _Choice, entry: _Entry, texts: list[StreamedText]) -> None:
        """Release texts that are over: in their own place in the event if they have one, else before it.

        Texts that come after one that was cut off are dropped.
        """
        own = {fed.text: fed for fed in entry.fed}
        cut = entry.cut
        for text in texts:
            order = order_of(text.path)
            del choice.texts[order][text.path]
            if entry.cut is not None and (order > entry.cut or (order is Order.CALL and entry.cut is not cut)):
                continue
            rest = await text.end()
            choice.tails[text.path] = text.tail
            fed = own.get(text)
            if fed is not None:
                fed.add(rest)
            elif rest:
                entry.rests[text.path] = entry.rests.get(text.path, "") + rest
            if text.blocked:
                entry.cuts(order, None if fed is None else fed.container)

    async def _cut_off(self, choice: _Choice) -> bytes:
        entry = _Entry({})
        await self._finish(choice, entry, choice.texts_before())
        choice.over = True
        return self._rests(choice, entry) + self._cut(choice)

    def _text(self, choice: _Choice, order: Order, path: Path) -> StreamedText:
        texts = choice.texts[order]
        text = texts.get(path)
        if text is None:
            text = texts[path] = self._texts.streamed(choice.index, path, choice.tails.get(path, ""))
        return text

    def _choice(self, index: int) -> _Choice:
        choice = self._choices.get(index)
        if choice is None:
            if len(self._choices) >= _MOST_CHOICES:
                raise unreadable(f"its answer has more than {_MOST_CHOICES} choices")
            choice = self._choices[index] = _Choice(index)
        return choice

    def _rests(self, choice: _Choice, entry: _Entry) -> bytes:
        if not entry.rests:
            return b""
        members: dict[str, Any] = {}
        for path, text in entry.rests.items():
            placed(members, path, text)
        return self._own(choice, members, None)

    def _cut(self, choice: _Choice) -> bytes:
        return self._own(choice, {"text": ""} if self._plain else {"delta": {}}, _CUT)

    def _own(self, choice: _Choice, members: dict[str, Any], reason: str | None) -> bytes:
        """Make a chunk of our own."""
        chunk = self._head | {
            "choices": [{"index": choice.index, **members, "logprobs": None, "finish_reason": reason}],
        }
        if self._usage:
            chunk["usage"] = None
        return b"data: " + encoded(chunk) + b"\n\n"


def _lines(event: bytes) -> tuple[bytes, bytes]:
    """Split an event into the lines that are kept and its data."""
    if event.startswith(b"data:") and b"\n" not in event:
        return b"", event[5:].strip()
    lines = event.removeprefix(_MARK).split(b"\n")
    data = [line[5:] for line in lines if line.startswith(b"data:")]
    kept = [line + b"\n" for line in lines if line.startswith(_LINES)]
    return b"".join(kept), b"\n".join(data).strip()
