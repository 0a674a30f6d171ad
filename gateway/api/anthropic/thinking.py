"""Translate reasoning budgets and efforts to the variables of the model's chat template.

Both are hints: a template without such a variable gets none, and the model reasons as it does.
"""

from typing import Any, Final

from gateway.api.anthropic.messages_body import (
    PromptBody,
    Thinking,
    ThinkingAdaptive,
    ThinkingDisabled,
    ThinkingEnabled,
)
from gateway.api.anthropic.messages_decoding import invalid
from gateway.api.anthropic.messages_renderer import Thoughts
from gateway.api.anthropic.messages_tools import forces_a_call
from gateway.models.served_model import ServedModel

#: Template variables that turn reasoning on and off.
_SWITCHES: Final = ("enable_thinking", "thinking")
_EFFORT: Final = "reasoning_effort"
#: Budgets below these, in tokens, mean the effort of that name.
_EFFORTS: Final = ((4096, "low"), (16384, "medium"))


def template_variables(model: ServedModel) -> frozenset[str] | None:
    """Give the variables that the model's chat template reads; None: only its upstream knows them."""
    return None if model.opaque else model.chat_format.reads


def chat_thinking(body: PromptBody, variables: frozenset[str] | None) -> dict[str, Any]:
    """Make the chat body's members about reasoning. Raises InvalidRequest."""
    thinking = body.thinking
    if isinstance(thinking, ThinkingEnabled) and forces_a_call(body):
        raise invalid("thinking", "It may not be enabled where tool_choice asks for a call.")
    effort = None if body.output_config is None else body.output_config.effort
    if variables is None:
        # Not every upstream takes the switches, and one that does not would refuse the whole request.
        return {} if effort is None else {_EFFORT: effort}
    found: dict[str, Any] = {}
    switch = next((word for word in _SWITCHES if word in variables), None)
    if thinking is not None and switch is not None:
        found["chat_template_kwargs"] = {switch: not isinstance(thinking, ThinkingDisabled)}
    if _EFFORT in variables:
        level = effort or _effort(thinking, can_switch=switch is not None)
        if level is not None:
            found[_EFFORT] = level
    return found


def _effort(thinking: Thinking | None, *, can_switch: bool) -> str | None:
    match thinking:
        case ThinkingDisabled():
            return None if can_switch else "low"
        case ThinkingEnabled(budget_tokens=budget):
            return next((effort for below, effort in _EFFORTS if budget < below), "high")
    return None


def shown_thoughts(body: PromptBody) -> Thoughts:
    """Decide how much of the reasoning the client gets."""
    match body.thinking:
        case ThinkingDisabled():
            return Thoughts.HIDDEN
        case ThinkingEnabled(display="omitted") | ThinkingAdaptive(display="omitted"):
            return Thoughts.OMITTED
    return Thoughts.SHOWN
