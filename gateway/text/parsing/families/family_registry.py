"""The registry of model families' formats for reasoning and tool calls, by name or by a model's files."""

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.text.parsing.channel_format import ChannelFamily, ChannelFormat
from gateway.text.parsing.families import (
    deepseek_v3,
    element_calls,
    functionary,
    gemma4,
    glm45,
    harmony,
    hermes,
    kimi_k2,
    kimi_k3,
    leading_json,
    llama3_json,
    marked_json,
    mistral,
    nested_elements,
    pythonic,
    solar_open,
)
from gateway.text.parsing.families.element_calls import learned_elements
from gateway.text.parsing.families.glm45 import learned_pairs
from gateway.text.parsing.families.keyed_json import learned_keyed
from gateway.text.parsing.families.marked_json import learned
from gateway.text.parsing.families.round_trip import reads
from gateway.text.parsing.output_format import OutputFormat
from gateway.text.parsing.tagged_format import TaggedFormat
from gateway.text.parsing.tool_format import ToolFormat

#: The name of tool calls in a form that was learned from the chat template.
LEARNED: Final = "learned"
#: Formats of whole answers by configured name, which cover both tool calls and reasoning.
CHANNELS: Final[Mapping[str, ChannelFamily]] = MappingProxyType(
    {
        "harmony": harmony.FAMILY,
        "kimi_k3": kimi_k3.FAMILY,
        "solar_open": solar_open.FAMILY,
        "functionary_v32": functionary.V32,
    }
)
#: Tool call formats by configured name; `CHANNELS` are others.
TOOL_FORMATS: Final[Mapping[str, ToolFormat]] = MappingProxyType(
    {
        "hermes": hermes.FORMAT,
        "llama3_json": llama3_json.FORMAT,
        "pythonic": pythonic.FORMAT,
        "mistral": mistral.FORMAT,
        "deepseek_v3": deepseek_v3.FORMAT,
        "kimi_k2": kimi_k2.FORMAT,
        "glm45": glm45.FORMAT,
        "qwen3_coder": element_calls.QWEN3_CODER,
        "minimax_m2": element_calls.MINIMAX_M2,
        "minimax_m3": nested_elements.FORMAT,
        "deepseek_v32": element_calls.DEEPSEEK_V32,
        "gemma4": gemma4.FORMAT,
        "lfm2": pythonic.LFM2,
        "phi4_mini": leading_json.PHI4_MINI,
        "granite": marked_json.GRANITE,
        "command_r": leading_json.COMMAND_R,
        "functionary_v31": functionary.V31,
    }
)
#: Reasoning tags by configured name; `CHANNELS` are others.
THINK_TAGS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "think": ("<think>", "</think>"),
        "thought": ("<thought>", "</thought>"),
        "seed_think": ("<seed:think>", "</seed:think>"),
        "magistral": ("[THINK]", "[/THINK]"),
        "granite": ("<think>", "</think>"),
        "gemma4": ("<|channel>thought", "<channel|>"),
        "minimax_m3": ("<mm:think>", "</mm:think>"),
        "hy3": ("<think:opensource>", "</think:opensource>"),
        "apertus": ("<|inner_prefix|>", "<|inner_suffix|>"),
    }
)
#: Tags around the text that follows the reasoning, which are left out.
_AROUND: Final[Mapping[str, tuple[str, str]]] = MappingProxyType({"granite": ("<response>", "</response>")})
#: All configured names of "tools" and of "reasoning".
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"tools": (*TOOL_FORMATS, *CHANNELS), "reasoning": (*THINK_TAGS, *CHANNELS)}
)

# Texts in a template that identify a family's tool calls; the first one found decides.
_TEMPLATES: Final = (
    (re.compile(re.escape(kimi_k2.CALL)), "kimi_k2"),
    (re.compile(re.escape(deepseek_v3.SEPARATOR)), "deepseek_v3"),
    (re.compile(re.escape(glm45.KEY)), "glm45"),
    (re.compile(re.escape(mistral.CALLS)), "mistral"),
    (re.compile("<parameter="), "qwen3_coder"),
    (re.compile(r"<function=\w*>\{"), "functionary_v31"),
    (re.compile(re.escape(nested_elements.MARK)), "minimax_m3"),
    (re.compile(rf"{hermes.OPEN}(?s:.*)[\"']name|[\"']name(?s:.*){hermes.OPEN}"), "hermes"),
    (re.compile(r"\[\s*func_name1\s*\("), "pythonic"),
    (re.compile(re.escape(gemma4.OPEN)), "gemma4"),
    (re.compile(r"<\|tool_(?:call|list)_start\|>"), "lfm2"),
    (re.compile(rf"{leading_json.FUNCTOOLS}\["), "phi4_mini"),
    (re.compile(rf"{leading_json.ACTION}(?s:.*)```json"), "command_r"),
    (re.compile(r"<\|tool_call\|>|<function_call>"), "granite"),
    (re.compile(r"<\|python_tag\|>|\\?\"parameters\\?\": (?:dictionary|')"), "llama3_json"),
)

#: LFM2.5's words before a list of tools; its template writes no calls.
_LFM2_TOOLS: Final = "List of tools: ["
#: Texts that a template of `CHANNELS` has, all of them.
_CHANNEL_MARKS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "harmony": (harmony.CHANNEL, harmony.MESSAGE),
        "kimi_k3": (kimi_k3.OPEN, kimi_k3.CLOSE, kimi_k3.TAG_END),
        "solar_open": (solar_open.THINK, solar_open.CALL),
        "functionary_v32": (f"{functionary.RECIPIENT}${{recipient}}",),
    }
)

#: Hy3's template puts its tags together of this and a suffix.
_HY3_THINK: Final = "<think{}>"

#: Families whose source tells the model how to write calls.
_TOLD: Final = frozenset({"pythonic", "phi4_mini"})
#: How a form is learned from what a template writes for the sample call, in the order of trying.
_LEARNS: Final = (learned, learned_elements, learned_pairs, learned_keyed)


def output_format(
    tools: str | None, reasoning: str | None, learned_tools: ToolFormat | None = None
) -> OutputFormat | None:
    """The output format of the named formats; None if both are None. Raises ValueError for unknown names.

    `LEARNED` tools are those given. `CHANNELS` cover both: they are combined with no other, and reasoning is always
    separated.
    """
    for kind, name in (("tools", tools), ("reasoning", reasoning)):
        if name not in (None, LEARNED) and name not in FAMILIES[kind]:
            raise ValueError(f"{name!r} is none of the forms of {kind}: {', '.join(FAMILIES[kind])}.")
    channels = next((name for name in (tools, reasoning) if name in CHANNELS), None)
    if channels is not None:
        if not {tools, reasoning} <= {None, channels}:
            raise ValueError(f"{channels} is a form of tools and of reasoning, and goes with no other.")
        return ChannelFormat(channels, CHANNELS[channels], calls=tools is not None)
    if tools is None and reasoning is None:
        return None
    name = "+".join(part for part in (reasoning, tools) if part is not None)
    return TaggedFormat(
        name,
        learned_tools if tools == LEARNED else None if tools is None else TOOL_FORMATS[tools],
        None if reasoning is None else THINK_TAGS[reasoning],
        None if reasoning is None else _AROUND.get(reasoning),
    )


class Recognised(NamedTuple):
    """The names of a model's formats; None: nothing was recognised. `learned_tools`: those by the name `LEARNED`."""

    tools: str | None
    reasoning: str | None
    learned_tools: ToolFormat | None = None


def recognised(template: str, specials: Collection[str], written_call: str = "") -> Recognised:
    """Recognise the formats by a chat template's source, the control tokens, and what the template writes for a call.

    Without a template, as with tekken files, only the tokens are examined. Where the template writes calls, the family
    is one whose parser reads what it has written: a source may have another family's words in it. A source that tells
    the model how to write calls is believed all the same, since histories may show them in another form.
    """
    shown = template or " ".join(specials)
    for name, marks in _CHANNEL_MARKS.items():
        if all(mark in shown for mark in marks) and _reads_channels(CHANNELS[name], written_call):
            return Recognised(name, name)
    reasoning = next((name for name, tags in THINK_TAGS.items() if tags[0] in shown or tags[1] in shown), None)
    if reasoning is None and _HY3_THINK in shown:
        reasoning = "hy3"
    if reasoning == "think" and "".join(_AROUND["granite"]) in shown:
        reasoning = "granite"
    tools = next((name for pattern, name in _TEMPLATES if pattern.search(shown)), None)
    if tools is None and _LFM2_TOOLS in shown and pythonic.Lfm2Calls.OPENING in specials:
        tools = "lfm2"
    if (
        not written_call
        or tools in _TOLD
        or (tools is not None and reads(TOOL_FORMATS[tools].new_parser, written_call))
    ):
        return Recognised(tools, reasoning)
    tools = next(
        (name for name, tool_format in TOOL_FORMATS.items() if reads(tool_format.new_parser, written_call)), None
    )
    if tools is None:
        for learn in _LEARNS:
            found = learn(written_call)
            if found is not None and reads(found.new_parser, written_call):
                return Recognised(LEARNED, reasoning, found)
    return Recognised(tools, reasoning)


def _reads_channels(family: ChannelFamily, written_call: str) -> bool:
    """Whether the family reads what the template has written for a call, if it writes calls."""
    return not written_call or reads(lambda use: family.new_parser(use, ""), family.opening + written_call)
