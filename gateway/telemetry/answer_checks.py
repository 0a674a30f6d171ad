"""Check an answer at its end, where versions of its model are compared: empty, a refusal, broken JSON or tool calls?

Only what a gateway can tell without a model. Answers that an upstream writes itself are relayed in its own bytes, and
are not looked into.
"""

import logging
from typing import Any, Final

import orjson

from gateway.inference.generate_request import Begun, Chat
from gateway.inference.generation import Generation
from gateway.telemetry.answer_record import describe
from gateway.text.parsing.delta import CallArguments, CallStart, Text
from gateway.text.refusals import declines
from gateway.text.schemas.conformance import conforms
from gateway.text.tokens.detokenizer import written_text
from observability.digests import Digests
from protos.types import FinishReason, GuideKind

log = logging.getLogger(__name__)

#: Tokens of an answer's beginning in which a refusal shows.
_BEGINNING_TOKENS: Final = 48
_JSON: Final = (GuideKind.JSON_OBJECT, GuideKind.JSON_SCHEMA)


def describe_compared(generation: Generation, digests: Digests | None) -> None:
    """Fill in the record as `describe` does, and check the answer where versions of its model are compared."""
    describe(generation, digests)
    versions = generation.request.model.versions
    if versions is not None and versions.split.candidate:
        try:
            generation.request.record.checks = checks_of(generation)
        except Exception:
            log.exception("the answer of request %s cannot be checked", generation.request.id)


def checks_of(generation: Generation) -> tuple[str, ...]:
    """Return what was found, by names of `routing/rollouts/measures/events.py`; an event once for a request."""
    if generation.stream.relay is not None:
        return ()
    sequences = generation.sequences
    if len(sequences) == 1:
        return _checks(generation, 0)
    found = [event for index in range(len(sequences)) for event in _checks(generation, index)]
    return tuple(sorted(set(found)))


def _checks(generation: Generation, index: int) -> tuple[str, ...]:
    request, sequence = generation.request, generation.sequences[index]
    tokens = generation.stream.tokens[index][: sequence.completion_tokens]
    is_json = request.guide is not None and request.guide.kind in _JSON
    if request.parser is None and not is_json:
        return found_in(written_text(generation.table, tokens[:_BEGINNING_TOKENS]))
    parser = None if request.parser is None else request.parser("", whole=True)
    cut = sequence.finish_reason is not FinishReason.STOP
    text = written_text(generation.table, tokens)
    names: list[str] = []
    arguments: dict[int, str] = {}
    if parser is not None:
        deltas = [*parser.feed(text), *parser.finish()]
        text = "".join([delta.text for delta in deltas if isinstance(delta, Text)])
        for delta in deltas:
            if isinstance(delta, CallStart):
                names.append(delta.name)
                arguments[delta.call] = ""
            elif isinstance(delta, CallArguments):
                arguments[delta.call] = arguments.get(delta.call, "") + delta.text
    if names:
        # What was cut off counts as that.
        valid = cut or are_valid(names, list(arguments.values()), _offered(request.prompt))
        return ("calls",) if valid else ("calls", "invalid_calls")
    if is_json and not cut:
        assert request.guide is not None, "it asks for JSON"
        return ("json",) if is_json_text(text, request.guide.text) else ("json", "invalid_json")
    return found_in(text)


def found_in(text: str) -> tuple[str, ...]:
    """Return what a text for the user is, from its beginning."""
    if not text.strip():
        return ("empty",)
    return ("refused",) if declines(text) else ()


def is_json_text(text: str, schema: str = "") -> bool:
    """Whether a text is valid JSON, of the schema where there is one that can be followed."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return not schema or conforms(orjson.loads(schema), value) is not False


def _offered(prompt: object) -> dict[str, Any] | None:
    """Return the schemas of the offered tools' arguments by name; None: the template was given none."""
    if isinstance(prompt, Begun):
        prompt = prompt.chat
    tools = prompt.extras.get("tools") if isinstance(prompt, Chat) else None
    if not tools:
        return None
    functions = [tool.get("function", tool) for tool in tools]
    return {function["name"]: function.get("parameters") or {} for function in functions}


def are_valid(names: list[str], arguments: list[str], offered: dict[str, Any] | None) -> bool:
    """Whether all calls are of offered tools, with an object as arguments that conforms to their schema."""
    for name, text in zip(names, arguments, strict=True):
        try:
            given = orjson.loads(text or "{}")
        except orjson.JSONDecodeError:
            return False
        if not isinstance(given, dict):
            return False
        if offered is not None and (name not in offered or conforms(offered[name], given) is False):
            return False
    return True
