"""Read the variables for the model's chat template that a chat's body has beside messages and tools."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta

from gateway.api.server.body_decoder import MAX_ECHO
from protos.errors import InvalidRequest, UnsupportedParameter

MAX_DOCUMENTS: Final = 1024
MAX_KWARGS: Final = 32
#: Bound on numbers: a template may repeat a text, or count to a number.
MAX_NUMBER: Final = 1_000_000
MAX_DEPTH: Final = 16
#: Names that have parameters of their own.
_RESERVED: Final = frozenset(("messages", "tools", "documents", "add_generation_prompt", "continue_final_message"))
#: Variables that turn reasoning on and off in templates without levels of effort.
_SWITCHES: Final = ("enable_thinking", "thinking")

Documents = Annotated[list[dict[str, Any]], Meta(max_length=MAX_DOCUMENTS)]
TemplateKwargs = Annotated[dict[str, Any], Meta(max_length=MAX_KWARGS)]


def check_kwargs(kwargs: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for names that belong to other parameters, and for values that are not bounded."""
    for name, value in kwargs.items():
        at = f"chat_template_kwargs.{name[:MAX_ECHO]}"
        if name in _RESERVED or not name.isidentifier():
            raise InvalidRequest(f"'{at}' may not be set in 'chat_template_kwargs'.", param=at)
        _check_value(value, at, MAX_DEPTH)


def _check_value(value: Any, at: str, depth: int) -> None:
    if isinstance(value, int | float) and abs(value) > MAX_NUMBER:
        raise InvalidRequest(f"Invalid value for '{at}': numbers may be {MAX_NUMBER} at most.", param=at)
    if isinstance(value, list | dict):
        if not depth:
            raise InvalidRequest(f"Invalid value for '{at}': nested deeper than {MAX_DEPTH} levels.", param=at)
        for one in value.values() if isinstance(value, dict) else value:
            _check_value(one, at, depth - 1)


def template_extras(
    reads: frozenset[str],
    kwargs: Mapping[str, Any] | None,
    *,
    effort: str | None = None,
    thinking: bool | None = None,
    verbosity: str | None = None,
    documents: Sequence[Mapping[str, Any]] | None = None,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Make the values for a chat format that `reads` these names, and say what became of hints.

    Effort, thinking and verbosity are hints, which clients send to every model: a template gets what it reads of them.
    Raises UnsupportedParameter for others that are not read.
    """
    extras: dict[str, Any] = {}
    adjusted: list[str] = []
    for name, value in (kwargs or {}).items():
        if name not in reads:
            raise _unknown(f"chat_template_kwargs.{name[:MAX_ECHO]}")
        extras[name] = value
    if effort is not None or thinking is not None:
        _think(reads, effort, thinking, extras, adjusted)
    if verbosity is not None:
        if "verbosity" in reads:
            extras["verbosity"] = verbosity
        elif verbosity != "medium":
            adjusted.append("verbosity=ignored")
    if documents:
        if "documents" not in reads:
            raise _unknown("documents")
        extras["documents"] = list(documents)
    return extras, tuple(adjusted)


def _think(
    reads: frozenset[str], effort: str | None, thinking: bool | None, extras: dict[str, Any], adjusted: list[str]
) -> None:
    """Add what the template reads of the hints; what `extras` already says stands."""
    switch = next((name for name in _SWITCHES if name in reads), None)
    on = thinking if thinking is not None else effort != "none"
    if switch is not None:
        extras.setdefault(switch, on)
    level = effort if effort is not None else None if thinking else "none"
    if "reasoning_effort" in reads:
        if level is not None:
            extras.setdefault("reasoning_effort", level)
        return
    # A value of `chat_template_kwargs` may be any text, which no header may have.
    value = None if switch is None else extras[switch]
    told = f"{switch}:{str(value).lower()}" if isinstance(value, bool) else "ignored"
    if effort is not None:
        adjusted.append(f"reasoning_effort={told}")
    elif switch is None:
        adjusted.append("enable_thinking=ignored")


def _unknown(param: str) -> UnsupportedParameter:
    return UnsupportedParameter(
        f"Unsupported parameter: '{param}' is not supported by this model's chat template.", param=param
    )
