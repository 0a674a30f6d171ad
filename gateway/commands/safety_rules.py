"""Which filters a `penstock safety` command looks with, and what it says where it cannot."""

import argparse
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.config import load_config
from gateway.config_errors import ConfigError
from gateway.config_safety import BUILT_IN, Rules, Safety, Use
from gateway.config_safety_checks import as_use
from gateway.filters.build import FilterUnusable, all_settings, text_filters
from safety.action import Action
from safety.filter import StreamFilter
from safety.pii.kinds import KINDS
from safety.screen import Rule

#: The exit status where a text or a filter cannot be used.
UNUSABLE: Final = 2


class Unusable(Exception):
    """A command cannot do what was asked; the text says why, and names the file or the field."""


class Chosen(NamedTuple):
    """The rules to look with; `thresholds` of those that score, by their names.

    `elsewhere` are filters of the policy that need more than a text.
    """

    rules: tuple[Rule, ...]
    thresholds: dict[str, float]
    elsewhere: tuple[str, ...]


def unusable(problem: object) -> int:
    """Say in one line what is wrong, and give the exit status."""
    print(f"penstock safety: {problem}", file=sys.stderr)
    return UNUSABLE


class Measured(NamedTuple):
    """Filters by their names, the kinds of personal data and secrets that they look for, and thresholds by names."""

    filters: dict[str, StreamFilter]
    kinds: frozenset[str]
    thresholds: dict[str, float]


def chosen_filters(arguments: argparse.Namespace) -> Measured:
    """The filters that --config and --filter name, or all. Raises Unusable."""
    safety = _safety(arguments)
    built, settings = _built(safety, prompts=True), all_settings(safety)
    configured = {one.name for one in safety.filters}
    # As it is built in, `secrets` finds nothing that `pii` does not find.
    names = arguments.filter or [name for name in built if name != "secrets" or name in configured]
    filters = {name: _named(built, name) for name in names}
    kinds = [
        frozenset(pii.detect or KINDS) - frozenset(pii.ignore)
        for name in names
        if (pii := settings[name][1].pii) is not None
    ]
    return Measured(filters, frozenset().union(*kinds), _thresholds(safety))


def chosen_rules(arguments: argparse.Namespace) -> Chosen:
    """The filters that --config, --policy, --direction and --filter name, and what they do. Raises Unusable."""
    safety = _safety(arguments)
    built = _built(safety, prompts=arguments.direction == "input")
    settings = {name: filter_settings for name, (_, filter_settings) in all_settings(safety).items()}
    rules = _policy(safety, arguments.policy)
    uses: tuple[str | Use, ...] = BUILT_IN
    if arguments.config is not None:
        uses = rules.input if arguments.direction == "input" else rules.output
    actions = {use.filter: use.action for use in map(as_use, uses)}
    names = arguments.filter or [name for name in actions if name in built]
    if not names and not actions:
        where = f"the policy {arguments.policy}" if arguments.policy else f"{arguments.config}"
        raise Unusable(f"{where} has no {arguments.direction} filters; choose some with --filter")

    def action(name: str) -> Action:
        usual = "block" if settings[name].pii is None else "redact"
        return Action[(actions.get(name) or usual).upper()]

    return Chosen(
        tuple(Rule(name, _named(built, name), action(name)) for name in names),
        _thresholds(safety),
        () if arguments.filter else tuple(name for name in actions if name not in built),
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
    if name not in built:
        raise Unusable(f"--filter: there is no filter {name} that looks at text alone ({', '.join(built)})")
    return built[name]
