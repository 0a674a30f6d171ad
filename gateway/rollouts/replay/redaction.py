"""Take personal data and secrets out of what is kept of requests and answers, by the gateway's own filter."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gateway.rollouts.comparison.answer import Answer, ToolCall
from safety.action import Action
from safety.pii.kinds import KINDS
from safety.screen import Rule, screened

#: Members whose values say who or where the end user is, whatever they look like.
_USERS: Final = frozenset({"user", "safety_identifier", "metadata", "prompt_cache_key", "cache_salt", "user_location"})
#: Members of a body that hold members of `_USERS`; in others, as in a tool's parameters, such a name means another
#: thing.
_HOLDERS: Final = frozenset({"web_search_options"})
#: Kinds of a message's parts that are text. Others may show or name a person, and cannot be redacted.
_TEXTS: Final = frozenset({"text", "refusal", "thinking"})


class NotRedactable(ValueError):
    """A body has what cannot be redacted; the text says where."""


class Redaction:
    """Redacts texts with rules, all of them whatever a policy would do with a match."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = [Rule(rule.name, rule.filter, Action.REDACT) for rule in rules]

    def text(self, text: str) -> str:
        """Redact one text. Raises FilterFailed."""
        return screened(text, self._rules).text

    def body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Redact each text of a body, wherever it stands, and leave out who the end user is.

        Raises FilterFailed, and NotRedactable for images, sounds and files.
        """
        found = {name: self._value(value) for name, value in body.items() if name not in _USERS}
        for name in _HOLDERS & found.keys():
            if isinstance(found[name], dict):
                found[name] = {key: value for key, value in found[name].items() if key not in _USERS}
        messages = found.get("messages")
        if isinstance(messages, list):
            found["messages"] = _anonymous(messages)
        return found

    def answer(self, answer: Answer) -> Answer:
        """Redact an answer. Raises FilterFailed."""
        return msgspec.structs.replace(
            answer,
            text=self.text(answer.text),
            reasoning=self.text(answer.reasoning),
            refusal=self.text(answer.refusal),
            calls=tuple(ToolCall(call.name, self.text(call.arguments)) for call in answer.calls),
        )

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(each) for each in value]
        if isinstance(value, dict):
            return {name: self._value(each) for name, each in value.items()}
        return value


def _anonymous(messages: list[Any]) -> list[Any]:
    """Number the participants that messages name, so that who says what can still be told. Raises NotRedactable."""
    numbers: dict[str, str] = {}
    found = []
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            found.append(message)
            continue
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if kind not in _TEXTS:
                raise NotRedactable(f"messages[{place}].content: {kind!r} cannot be redacted")
        name = message.get("name")
        # That of a function or tool is no person's.
        if name is not None and message.get("role") not in ("function", "tool"):
            found.append(message | {"name": numbers.setdefault(str(name), f"participant-{len(numbers) + 1}")})
        else:
            found.append(message)
    return found


def usual_redaction() -> Redaction:
    """Make the redaction of all kinds of personal data and secrets, whatever filters are configured; takes a second."""
    from safety.pii.pii_filter import PiiFilter  # its tables take memory

    return Redaction([Rule("pii", PiiFilter(frozenset(KINDS)), Action.REDACT)])
