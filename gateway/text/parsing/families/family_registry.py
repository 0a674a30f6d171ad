"""The registry of model families' formats for reasoning and tool calls, by name or by a model's files."""

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from gateway.text.parsing.families import deepseek_v3, glm45, harmony, hermes, kimi_k2, llama3_json, mistral, pythonic
from gateway.text.parsing.output_format import OutputFormat
from gateway.text.parsing.tagged_format import TaggedFormat
from gateway.text.parsing.tool_format import ToolFormat

#: The format that covers both tool calls and reasoning.
HARMONY: Final = "harmony"
#: Tool call formats by configured name; `HARMONY` is another.
TOOL_FORMATS: Final[Mapping[str, ToolFormat]] = MappingProxyType(
    {
        "hermes": hermes.FORMAT,
        "llama3_json": llama3_json.FORMAT,
        "pythonic": pythonic.FORMAT,
        "mistral": mistral.FORMAT,
        "deepseek_v3": deepseek_v3.FORMAT,
        "kimi_k2": kimi_k2.FORMAT,
        "glm45": glm45.FORMAT,
    }
)
#: Reasoning tags by configured name; `HARMONY` is another.
THINK_TAGS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "think": ("<think>", "</think>"),
        "thought": ("<thought>", "</thought>"),
        "seed_think": ("<seed:think>", "</seed:think>"),
        "magistral": ("[THINK]", "[/THINK]"),
    }
)
#: All configured names of "tools" and of "reasoning".
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"tools": (*TOOL_FORMATS, HARMONY), "reasoning": (*THINK_TAGS, HARMONY)}
)

# Texts in a template that identify a family's tool calls; the first one found decides.
_TEMPLATES: Final = (
    (re.compile(re.escape(kimi_k2.CALL)), "kimi_k2"),
    (re.compile(re.escape(deepseek_v3.SEPARATOR)), "deepseek_v3"),
    (re.compile(re.escape(glm45.KEY)), "glm45"),
    (re.compile(re.escape(mistral.CALLS)), "mistral"),
    # Tagged calls as XML, which is a different format.
    (re.compile(r"<function=|<parameter="), None),
    (re.compile(rf"{hermes.OPEN}(?s:.*)[\"']name|[\"']name(?s:.*){hermes.OPEN}"), "hermes"),
    (re.compile(r"\[\s*func_name1\s*\("), "pythonic"),
    (re.compile(r"<\|python_tag\|>|\\?\"parameters\\?\": (?:dictionary|')"), "llama3_json"),
)


def output_format(tools: str | None, reasoning: str | None) -> OutputFormat | None:
    """The output format of the named formats; None if both are None. Raises ValueError for unknown names.

    Harmony covers both: it is combined with no other, and reasoning is always separated.
    """
    for kind, name in (("tools", tools), ("reasoning", reasoning)):
        if name is not None and name not in FAMILIES[kind]:
            raise ValueError(f"{name!r} is none of the forms of {kind}: {', '.join(FAMILIES[kind])}.")
    if HARMONY in (tools, reasoning):
        if not {tools, reasoning} <= {None, HARMONY}:
            raise ValueError("harmony is a form of tools and of reasoning, and goes with no other.")
        return harmony.HarmonyFormat(calls=tools is not None)
    if tools is None and reasoning is None:
        return None
    name = "+".join(part for part in (reasoning, tools) if part is not None)
    return TaggedFormat(
        name,
        None if tools is None else TOOL_FORMATS[tools],
        None if reasoning is None else THINK_TAGS[reasoning],
    )


def recognised(template: str, specials: Collection[str]) -> tuple[str | None, str | None]:
    """The names of the tool and reasoning formats, recognized from a chat template's source and the control tokens.

    Without a template, as with tekken files, only the tokens are examined. None: nothing is recognized, or the template
    does not support it.
    """
    shown = template or " ".join(specials)
    if harmony.CHANNEL in shown and harmony.MESSAGE in shown:
        return HARMONY, HARMONY
    reasoning = next((name for name, tags in THINK_TAGS.items() if tags[0] in shown or tags[1] in shown), None)
    tools = next((name for pattern, name in _TEMPLATES if pattern.search(shown)), None)
    return tools, reasoning
