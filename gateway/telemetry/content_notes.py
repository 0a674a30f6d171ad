"""Note in a record what drift counts of prompts and answers: a language, a number of tools, whether it was declined.

It is done after the answer has been sent, and only for models with `drift`.
"""

from typing import Final

from gateway.inference.generate_request import Begun, Chat, FillIn, Prompt
from gateway.inference.generation import Generation
from gateway.text.language import language_of
from gateway.text.refusals import declines
from gateway.text.tokens.detokenizer import written_text

#: Tokens of an answer that are made into text again.
_MOST_TOKENS: Final = 64


def note_content(generation: Generation) -> None:
    """Fill in the record's fields."""
    request = generation.request
    record = request.record
    prompt = request.prompts[0] if request.prompts else request.prompt
    if isinstance(prompt, Begun):
        prompt = prompt.chat
    record.language = language_of(_asked(prompt))
    if isinstance(prompt, Chat):
        record.tools = len(prompt.extras.get("tools") or ())
    record.refused = declines(_answered(generation))


def _asked(prompt: Prompt) -> str:
    """The text whose language counts: of a chat what the user said last."""
    if isinstance(prompt, Chat):
        for message in reversed(prompt.messages):
            if message.get("role") == "user":
                return _text(message.get("content"))
        return ""
    if isinstance(prompt, FillIn):
        return prompt.prefix
    return prompt if isinstance(prompt, str) else ""


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return " ".join(part for part in parts if isinstance(part, str))


def _answered(generation: Generation) -> str:
    """The first answer's beginning, without its thoughts; of an upstream's answer nothing is known."""
    if generation.stream.relay is not None:
        return ""
    begin = generation.reasoning_tokens if generation.answers is not None else 0
    return written_text(generation.table, generation.stream.tokens[0][begin : begin + _MOST_TOKENS])
