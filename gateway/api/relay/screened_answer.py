"""Screen every text of a relayed answer in one piece."""

from typing import Any, Final

from gateway.api.relay.answer_texts import AnswerTexts
from gateway.api.relay.relayed_strings import (
    Kind,
    Order,
    choices_of,
    decoded,
    encoded,
    order_of,
    strings_beside,
    strings_of,
    unreadable,
    without_calls,
)
from protos.types import FinishReason

_CUT: Final = FinishReason.CONTENT_FILTER.value


async def screened_answer(body: bytes, texts: AnswerTexts) -> bytes:
    """Screen the answer. Raises FilterFailed.

    A choice that is cut off ends there, with `content_filter`: what follows in the order of output (text after
    reasoning, tool calls after both) is left out. So are logprobs, token ids and audio.
    """
    answer = decoded(body)
    choices = choices_of(answer)
    if choices is None:
        raise unreadable("its answer has no choices")
    ends = False
    for found in strings_beside(answer):
        found.container[found.key], cut = texts.whole(0, found.container[found.key])
        ends = ends or cut
    for place, choice in enumerate(choices):
        if await _screen(choice.get("index", place), choice, texts) or ends:
            choice["finish_reason"] = _CUT
    return encoded(answer)


async def _screen(index: int, choice: dict[str, Any], texts: AnswerTexts) -> bool:
    """Screen a choice; return whether something was cut off."""
    cut: Order | None = None
    cut_in: Any = None
    for kind, container, key, path in strings_of(choice):
        if kind is Kind.OTHER:
            continue
        order = order_of(path)
        if cut is not None and (order > cut or order is Order.CALL):
            container[key] = ""
            continue
        if kind is Kind.PIECE:
            container[key], ends = await texts.guarded(index, path, container[key])
        else:
            container[key], ends = texts.whole(index, container[key])
        if ends and cut is None:
            cut, cut_in = order, container if order is Order.CALL else None
    if cut is not None:
        without_calls(choice, cut_in)
    return cut is not None
