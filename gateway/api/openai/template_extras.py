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
#: Variables that turn reasoning off in templates without levels of effort.
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
    effort: str | None,
    verbosity: str | None,
    documents: Sequence[Mapping[str, Any]] | None,
) -> dict[str, Any]:
    """Make the values for a chat format that `reads` these names. Raises UnsupportedParameter for unused ones."""
    extras: dict[str, Any] = {}
    for name, value in (kwargs or {}).items():
        if name not in reads:
            raise _unknown(f"chat_template_kwargs.{name[:MAX_ECHO]}")
        extras[name] = value
    if effort is not None:
        extras |= _effort(reads, effort, extras)
    if verbosity is not None:
        if "verbosity" in reads:
            extras["verbosity"] = verbosity
        elif verbosity != "medium":
            raise _unknown("verbosity")
    if documents:
        if "documents" not in reads:
            raise _unknown("documents")
        extras["documents"] = list(documents)
    return extras


def _effort(reads: frozenset[str], effort: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if "reasoning_effort" in reads:
        return {"reasoning_effort": effort}
    switch = next((name for name in _SWITCHES if name in reads), None)
    if effort != "none" or switch is None:
        raise _unknown("reasoning_effort")
    if given.get(switch, False) is not False:
        raise InvalidRequest(
            f"'reasoning_effort' none and 'chat_template_kwargs.{switch}' exclude each other.", param="reasoning_effort"
        )
    return {switch: False}


def _unknown(param: str) -> UnsupportedParameter:
    return UnsupportedParameter(
        f"Unsupported parameter: '{param}' is not supported by this model's chat template.", param=param
    )
