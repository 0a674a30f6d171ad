"""Mistral's instruct format, version 3, for tekken files, which carry no template.

Written out rather than as a Jinja template: it is the default, and this way a short chat costs a third.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.text.tokens.chat_format import Messages, TemplateError
from gateway.text.tokens.forms.call_form import parsed_json
from gateway.text.tokens.tokenizer import PartsEncoder

_SYSTEM_ROLES = frozenset({"system", "developer"})
#: Length of call ids, of letters and digits; of longer ids the end is used.
CALL_ID_CHARS: Final = 9


class MistralInstruct:
    """System messages and tools precede the last question; consecutive messages of one role are joined by a blank line.

    A message is closed by the next one of another role, which is why `before` counts system messages and `last` does
    not. The ids are the same as those of mistral-common's own encoder.
    """

    CONTROLS = (
        *("<s>", "</s>", "[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        *("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]"),
    )
    reads = frozenset({"tools"})
    calls = True

    def encode_chat(
        self, tokenizer: PartsEncoder, messages: Messages, *, tools: Sequence[Mapping[str, Any]] = (), **extras: Any
    ) -> Sequence[int]:
        if not tools and messages and messages[-1]["role"] == "user":
            # The first turn of a conversation is the most common prompt.
            if len(messages) == 1:
                return tokenizer.encode_parts(("", "<s>", "", "[INST]", messages[0]["content"], "[/INST]", ""))
            if len(messages) == 2 and messages[0]["role"] in _SYSTEM_ROLES:
                system, question = messages[0]["content"], messages[1]["content"]
                text = f"{system}\n\n{question}" if system else question
                return tokenizer.encode_parts(("", "<s>", "", "[INST]", text, "[/INST]", ""))
        roles = ["system" if m["role"] in _SYSTEM_ROLES else m["role"] for m in messages]
        dialogue = [role for role in roles if role != "system"]
        if dialogue and dialogue[-1] == "assistant":
            raise TemplateError("The last message must be the user's or a tool's.")
        instructions = [m["content"] for m, role in zip(messages, roles, strict=True) if role == "system"]
        system = "".join([f"{instruction}\n\n" for instruction in instructions if instruction])
        shown = ["", "[AVAILABLE_TOOLS]", _json(tools), "[/AVAILABLE_TOOLS]"] if tools else []
        if not dialogue:
            return tokenizer.encode_parts(["", "<s>", *shown, "", "[INST]", system, "[/INST]", ""])
        question = max(
            (i for i, role in enumerate(roles) if role == "user" and (i == 0 or roles[i - 1] != "user")), default=-1
        )
        # Texts and control tokens in turn; `text` is the current one.
        parts, text = ["", "<s>"], ""
        calls: list[dict[str, Any]] = []
        before = last = ""
        for i, (message, role) in enumerate(zip(messages, roles, strict=True)):
            if before == "user" and role != "user":
                parts += (text, "[/INST]")
                text = ""
            elif before == "assistant" and role != "assistant":
                if calls:
                    parts += (text, "[TOOL_CALLS]")
                    text, calls = _json(calls), []
                parts += (text, "</s>")
                text = ""
            elif before == role and (role == "user" or (role == "assistant" and text and message["content"])):
                text += "\n\n"
            if role == "user":
                if before != "user":
                    if i == question:
                        parts += shown
                    parts += (text, "[INST]")
                    text = system if i == question else ""
                text += message["content"]
            elif role != "system":
                if not last:
                    if question < 0:
                        parts += shown
                        text = system
                    parts += ("", "[INST]", text, "[/INST]")
                    text = ""
                if role == "assistant":
                    text += (message["content"] or "").rstrip(" ")
                    if message.get("tool_calls"):
                        calls += map(_call, message["tool_calls"])
                elif role != "tool":
                    raise TemplateError(f"{role!r} is not a role.")
                elif "tool_call_id" not in message:
                    raise TemplateError("A tool's message needs a tool_call_id.")
                else:
                    parts += (text, "[TOOL_RESULTS]", _tool_result(message), "[/TOOL_RESULTS]")
                    text = ""
            last = last if role == "system" else role
            before = role
        if before == "user":
            parts += (text, "[/INST]")
            text = ""
        return tokenizer.encode_parts([*parts, text])


def _tool_result(message: Mapping[str, Any]) -> str:
    return _json({"content": _parsed(message["content"]), "call_id": message["tool_call_id"][-CALL_ID_CHARS:]})


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = _parsed(function["arguments"])
    return {"name": function["name"], "arguments": arguments, "id": call["id"][-CALL_ID_CHARS:]}


def _parsed(text: str) -> Any:
    return parsed_json(text or "{}", otherwise=text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
