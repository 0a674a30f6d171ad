"""Rules of filters and policies that span fields or that a type cannot say, and references between them."""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gateway.config.errors import echo
from gateway.config.models.adapters import SEPARATOR
from gateway.config.safety.guard_checks import guard_problems, with_absolute_files
from gateway.config.safety.settings import BUILT_IN, FilterSettings, Policy, Rules, Safety, Use
from gateway.config.settings import Config
from safety.pii.kinds import KINDS

Problems = Iterator[tuple[str, str]]

_KINDS: Final = tuple(name for name in FilterSettings.__struct_fields__ if name != "name")
#: Filters of requests, which cannot scan an answer.
_OF_PROMPTS: Final = ("floods", "sizes")
#: Filters of answers, whose matches are legitimate in a prompt.
_OF_ANSWERS: Final = ("canaries",)
#: Filters that judge a text as a whole and give no position.
_WITHOUT_POSITION: Final = ("floods", "sizes", "model", "http", "onnx")


#: The command line's value that removes a tenant's policy.
NO_POLICY: Final = "none"
#: Filters whose matches are redacted by default; all others block.
_REDACTED: Final = ("pii", "presidio")


def usual_action(settings: FilterSettings) -> str:
    """The action on a match when the rules name none."""
    return "redact" if kind_of(settings) in _REDACTED else "block"


def kind_of(settings: FilterSettings) -> str:
    """The field that gives a filter its kind; empty if none or several are set."""
    kinds = [name for name in _KINDS if getattr(settings, name) is not None]
    return kinds[0] if len(kinds) == 1 else ""


def as_use(use: str | Use) -> Use:
    """Normalize a filter reference, name or struct, to a `Use`."""
    return Use(filter=use) if isinstance(use, str) else use


def safety_problems(config: Config) -> Problems:
    """Yield (path, problem) for each violated rule of filters, policies and references to them."""
    safety = config.safety
    kinds = {name: "injection" if name == "injection" else "pii" for name in BUILT_IN}
    seen: set[str] = set()
    asked = [*config.model_names]
    asked += [f"{model.name}{SEPARATOR}{adapter.name}" for model in config.models for adapter in model.adapters]
    for index, settings in enumerate(safety.filters):
        where = f"safety.filters[{index}]"
        if settings.name in seen:
            yield f"{where}.name", f"{echo(settings.name)} is already the name of another filter"
        seen.add(settings.name)
        kind = kind_of(settings)
        if kind and kinds.get(settings.name, kind) != kind:
            yield f"{where}.name", f"{echo(settings.name)} is the name of a built-in filter of another kind"
        if not kind:
            yield where, f"expected exactly one of {', '.join(_KINDS)}"
            continue
        kinds[settings.name] = kind
        yield from _filter_problems(settings, kind, where, asked)
    yield from _rules_problems(safety, "safety", kinds)
    names: set[str] = set()
    for index, policy in enumerate(safety.policies):
        where = f"safety.policies[{index}]"
        if policy.name in names:
            yield f"{where}.name", f"{echo(policy.name)} is already the name of another policy"
        if policy.name == NO_POLICY:
            yield f"{where}.name", f"{echo(policy.name)} means no policy, for `penstock tenants update --safety`"
        names.add(policy.name)
        yield from _rules_problems(policy, where, kinds)
    for index, model in enumerate(config.models):
        if model.safety is not None and model.safety not in names:
            yield f"models[{index}].safety", f"there is no policy {echo(model.safety)} in safety.policies"


def policy_names(policies: Sequence[Policy]) -> tuple[str, ...]:
    """The names of policies that tenants and models may use."""
    return tuple(policy.name for policy in policies)


def with_absolute_lists(safety: Safety, folder: Path) -> Safety:
    """Give the section with relative file paths of filters made absolute under `folder`."""
    return msgspec.structs.replace(safety, filters=tuple(_absolute(settings, folder) for settings in safety.filters))


def _absolute(settings: FilterSettings, folder: Path) -> FilterSettings:
    if settings.terms is not None and settings.terms.file is not None:
        terms = msgspec.structs.replace(settings.terms, file=os.path.abspath(folder / settings.terms.file))
        settings = msgspec.structs.replace(settings, terms=terms)
    if settings.http is not None:
        settings = msgspec.structs.replace(settings, http=with_absolute_files(settings.http, folder))
    if settings.onnx is not None:
        settings = msgspec.structs.replace(settings, onnx=with_absolute_files(settings.onnx, folder))
    return settings


def _filter_problems(settings: FilterSettings, kind: str, where: str, models: Collection[str]) -> Problems:
    inside = f"{where}.{kind}"
    if settings.pii is not None and not frozenset(settings.pii.detect or KINDS).difference(settings.pii.ignore):
        yield f"{inside}.ignore", "leaves no kind to look for"
    if settings.terms is not None and not settings.terms.terms and settings.terms.file is None:
        yield inside, "expected terms, a file, or both"
    if settings.canaries is not None and not settings.canaries.tokens and settings.canaries.prefix is None:
        yield inside, "expected tokens, a prefix, or both"
    if settings.floods is not None and settings.floods.identical is None and settings.floods.similar is None:
        yield inside, "expected identical, similar, or both"
    if settings.sizes is not None and settings.sizes == type(settings.sizes)():
        yield inside, "expected a bound"
    if settings.guard is not None:
        yield from guard_problems(settings.guard, inside, models)


def _rules_problems(rules: Rules, where: str, kinds: dict[str, str]) -> Problems:
    for direction, wrong, what in (("input", _OF_ANSWERS, "answers"), ("output", _OF_PROMPTS, "prompts")):
        seen: set[str] = set()
        for index, written in enumerate(getattr(rules, direction)):
            use, inside = as_use(written), f"{where}.{direction}[{index}]"
            kind = kinds.get(use.filter)
            if kind is None:
                yield inside, f"there is no filter {echo(use.filter)}; there are {', '.join(sorted(kinds))}"
                continue
            if kind in wrong:
                yield inside, f"{kind} is a filter of {what} alone"
            if use.filter in seen:
                yield inside, f"{echo(use.filter)} is already in the list"
            seen.add(use.filter)
            if use.action == "redact" and kind in _WITHOUT_POSITION:
                yield inside, f"a verdict of {kind} is about the text as a whole, which cannot be redacted"
