"""Choose the filters that a `penstock safety` command runs."""

import argparse
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.cli.safety.safety_output import Unusable
from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.safety.guards import OnnxGuardSettings, PluginFilter, PresidioFilter
from gateway.config.safety.safety_checks import as_use, usual_action
from gateway.config.safety.settings import BUILT_IN, FilterSettings, Rules, Safety, Use
from gateway.filtering.filters.build_filters import FilterUnusable, all_settings, text_filters
from gateway.filtering.filters.filter_policy import GuardRule, SizeRule
from gateway.filtering.guards.bounded import BoundedGuard, GuardBackend
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.onnx import OnnxGuard
from gateway.filtering.guards.plugin_guard import PluginGuard
from gateway.filtering.guards.presidio_guard import PresidioGuard
from safety.action import Action
from safety.filter import StreamFilter
from safety.pii.kinds import KINDS
from safety.screen import Rule
from safety.sizes import Sizes


class ChosenRules(NamedTuple):
    """The chosen rules; `thresholds` are of those that score, by name.

    `elsewhere` are filters of the policy that cannot run on a text alone in this process.
    """

    rules: tuple[Rule, ...]
    sizes: tuple[SizeRule, ...]
    guards: tuple[GuardRule, ...]
    thresholds: dict[str, float]
    elsewhere: tuple[str, ...]


class ChosenFilters(NamedTuple):
    """Filters by name, the kinds of personal data and secrets that they find, and thresholds by name."""

    filters: dict[str, StreamFilter]
    kinds: frozenset[str]
    thresholds: dict[str, float]


def chosen_filters(arguments: argparse.Namespace) -> ChosenFilters:
    """Choose the filters that --config and --filter name, or all. Raises Unusable."""
    safety = _safety(arguments)
    built, settings = _built(safety, prompts=True), all_settings(safety)
    configured = {one.name for one in safety.filters}
    # With its default settings `secrets` finds nothing that `pii` does not find.
    names = arguments.filter or [name for name in built if name != "secrets" or name in configured]
    filters = {name: _named(built, name) for name in names}
    kinds = [
        frozenset(pii.detect or KINDS) - frozenset(pii.ignore)
        for name in names
        if (pii := settings[name][1].pii) is not None
    ]
    return ChosenFilters(filters, frozenset().union(*kinds), _thresholds(safety))


def chosen_rules(arguments: argparse.Namespace) -> ChosenRules:
    """Choose the filters that --config, --policy, --direction and --filter name, with their actions. Raises
    Unusable.
    """
    safety, prompts = _safety(arguments), arguments.direction == "input"
    built, settings = _built(safety, prompts=prompts), all_settings(safety)
    rules = _policy(safety, arguments.policy)
    uses: tuple[str | Use, ...] = BUILT_IN
    if arguments.config is not None:
        uses = rules.input if prompts else rules.output
    actions = {use.filter: use.action for use in map(as_use, uses)}
    local = {name for name, (_, one) in settings.items() if name in built or _needs_text_alone(one, prompts=prompts)}
    names = list(dict.fromkeys(arguments.filter or [name for name in actions if name in local]))
    if not names and not actions:
        where = f"the policy {arguments.policy}" if arguments.policy else f"{arguments.config}"
        raise Unusable(f"{where} has no {arguments.direction} filters; choose some with --filter")
    _check_names(names, [name for name in settings if name in local])
    found: list[Rule | SizeRule | GuardRule] = []
    for name in names:
        where, one = settings[name]
        action = Action[(actions.get(name) or usual_action(one)).upper()]
        if one.sizes is not None:
            sizes = one.sizes
            bounds = Sizes(sizes.prompt_characters, sizes.message_characters, sizes.messages)
            found.append(SizeRule(name, bounds, action))
        else:
            found.append(Rule(name, built[name], action) if name in built else _guard_rule(one, where, action))
    return ChosenRules(
        tuple(rule for rule in found if isinstance(rule, Rule)),
        tuple(rule for rule in found if isinstance(rule, SizeRule)),
        tuple(rule for rule in found if isinstance(rule, GuardRule)),
        _thresholds(safety),
        () if arguments.filter else tuple(name for name in actions if name not in local),
    )


def _needs_text_alone(settings: FilterSettings, *, prompts: bool) -> bool:
    """Return whether a filter that is not among `text_filters` can run without a gateway."""
    if settings.sizes is not None:
        return prompts
    return any(each is not None for each in (settings.plugin, settings.presidio, settings.onnx))


def _guard_rule(settings: FilterSettings, where: str, action: Action) -> GuardRule:
    own = settings.guard
    try:
        if isinstance(own, PresidioFilter):
            backend: GuardBackend = PresidioGuard(own, f"{where}.presidio")
        elif isinstance(own, OnnxGuardSettings):
            backend = OnnxGuard(own, f"{where}.onnx")
        else:
            assert isinstance(own, PluginFilter), "others need a gateway"
            backend = PluginGuard(own, f"{where}.plugin")
    except GuardUnusable as error:
        raise Unusable(error) from error
    guard = BoundedGuard(backend, own)
    return GuardRule(
        settings.name, guard, action, parallel=False, window=own.window_characters, spans=settings.onnx is None
    )


def _safety(arguments: argparse.Namespace) -> Safety:
    if arguments.config is None:
        return Safety()
    try:
        return load_config(arguments.config).safety
    except ConfigError as error:
        raise Unusable(error) from error


def _built(safety: Safety, *, prompts: bool) -> dict[str, StreamFilter]:
    try:
        return text_filters(safety, prompts=prompts)
    except FilterUnusable as error:
        raise Unusable(error) from error


def _thresholds(safety: Safety) -> dict[str, float]:
    return {
        name: settings.injection.threshold
        for name, (_, settings) in all_settings(safety).items()
        if settings.injection is not None
    }


def _policy(safety: Safety, name: str | None) -> Rules:
    if name is None:
        return safety
    for policy in safety.policies:
        if policy.name == name:
            return policy
    known = ", ".join(policy.name for policy in safety.policies) or "none is configured"
    raise Unusable(f"--policy: there is no policy {name} ({known})")


def _named(built: Mapping[str, StreamFilter], name: str) -> StreamFilter:
    _check_names([name], list(built))
    return built[name]


def _check_names(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise Unusable(f"--filter: there is no filter {name} that looks at text alone ({', '.join(known)})")
