"""Find out where a chat template writes instructions, and arrange those of a request so that none is lost.

Templates know one system message, at the beginning. What they do with a second one, with a developer's, or with one
between two turns differs: some write it, some refuse it, and some drop it without a word. So each is asked once, with
chats of words that are found again or not.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product, takewhile
from typing import Any, Final, NamedTuple

from gateway.text.tokens.chat_format import Messages, TemplateError

INSTRUCTING: Final = frozenset(("system", "developer"))
_ROLES: Final = ("system", "developer")
_BREAK: Final = "\n\n"
_USER: Final = {"role": "user", "content": "Quince"}
_ANSWER: Final = {"role": "assistant", "content": "Rowan"}


class InstructionForm(NamedTuple):
    """What a template writes: one message of a role at the beginning; several; one between the turns; and those at the
    beginning `alone`, or where the last message is no user's (`ended`).
    """

    system: bool
    developer: bool
    several: bool
    between: bool
    alone: bool = True
    ended: bool = True

    def fits(self, messages: Messages, instructing: Messages) -> bool:
        """Whether the template writes these messages as they are; `instructing` are those with instructions."""
        first, *more = instructing
        known = self.system if first["role"] == "system" else self.developer
        return not more and first is messages[0] and known and self._stand(messages)

    def _stand(self, messages: Messages) -> bool:
        """Whether instructions at the beginning of these messages are written."""
        if messages[-1]["role"] in INSTRUCTING:
            return self.alone or len(messages) > len(_head(messages))
        return self.ended or messages[-1]["role"] == "user"

    def arranged(self, messages: Messages) -> list[Mapping[str, Any]]:
        """Arrange the messages. Their order stays: instructions at the beginning become one message, or come before the
        first user's text where the template writes none; those between turns come before the text of the next user's
        message, or after that of the one before.
        """
        if not self._stand(messages):
            return _NOWHERE.arranged(messages)
        head = len(_head(messages))
        arranged: list[Mapping[str, Any]] = []
        waiting: list[str] = []
        leading = [self._known(message) for message in messages[:head]]
        if not self.system and not self.developer:
            waiting = [_text(message) for message in leading]
        elif self.several or len(leading) < 2:
            arranged += leading
        else:
            role = "system" if self.system else "developer"
            arranged.append({"role": role, "content": _BREAK.join(map(_text, leading))})
        for message in messages[head:]:
            if message["role"] in INSTRUCTING and (not self.between or waiting):
                waiting.append(_text(message))
            elif message["role"] in INSTRUCTING:
                arranged.append(self._known(message))
            elif waiting and message["role"] == "user":
                arranged.append({**message, "content": _BREAK.join([*waiting, _text(message)])})
                waiting = []
            else:
                arranged.append(message)
        if waiting and arranged and arranged[-1]["role"] == "user":
            last = arranged.pop()
            arranged.append({**last, "content": _BREAK.join([_text(last), *waiting])})
        elif waiting:
            arranged.append({"role": "user", "content": _BREAK.join(waiting)})
        return arranged

    def _known(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give the message with a role that the template writes."""
        known = self.system if message["role"] == "system" else self.developer
        return message if known else {**message, "role": "system" if self.system else "developer"}


#: The form of a template that knows no instructions.
_NOWHERE: Final = InstructionForm(system=False, developer=False, several=False, between=False)


def _head(messages: Messages) -> list[Mapping[str, Any]]:
    """The instructions at the beginning."""
    return list(takewhile(lambda one: one["role"] in INSTRUCTING, messages))


def find_instruction_form(render: Callable[[Sequence[Mapping[str, Any]]], str], *, developer: bool) -> InstructionForm:
    """Find the form of a template; `developer`: it has that word. `render` raises TemplateError.

    A template that writes whatever a role is called is none that knows developers, and nor is its model.
    """

    def writes(*messages: Mapping[str, Any]) -> bool:
        try:
            text = render(messages)
        except TemplateError:
            return False
        places = [text.find(str(message["content"])) for message in messages]
        return -1 not in places and places == sorted(places)

    known = {role: writes(_said(role, "Sorrel"), _USER) for role in _ROLES}
    known["developer"] = known["developer"] and developer
    roles = [role for role in _ROLES if known[role]]
    pairs = list(product(roles, repeat=2))
    several = all(writes(_said(one, "Sorrel"), _said(other, "Tamarisk"), _USER) for one, other in pairs)
    between = all(
        writes(_USER, _ANSWER, _said(role, "Sorrel"), {"role": "user", "content": "Tamarisk"})
        and writes(_said(first, "Umbel"), _USER, _ANSWER, _said(role, "Sorrel"))
        for first, role in pairs
    )
    alone = all(writes(_said(role, "Sorrel")) or not writes(_said("user", "Sorrel")) for role in roles)
    ended = all(writes(_said(role, "Sorrel"), _USER, _ANSWER) for role in roles)
    return InstructionForm(
        known["system"], known["developer"], several and bool(roles), between and bool(roles), alone, ended
    )


def missing(messages: Messages, rendered: str) -> int | None:
    """Find an instruction that is not in a prompt: the position of its message; None: all are there."""
    at = 0
    for position, message in enumerate(messages):
        if message["role"] not in INSTRUCTING:
            continue
        text = _text(message).strip()
        # They stand in their order as a rule: looking from the start each time would take quadratic time.
        if (found := rendered.find(text, at)) < 0 and (found := rendered.find(text)) < 0:
            return position
        at = found + len(text)
    return None


def _said(role: str, word: str) -> dict[str, str]:
    return {"role": role, "content": word}


def _text(message: Mapping[str, Any]) -> str:
    return message.get("content") or ""
