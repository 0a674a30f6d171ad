"""A worker's filters, and the policies that apply them to the requests of each tenant and model."""

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.config.safety.safety_checks import as_use, usual_action
from gateway.config.safety.settings import BUILT_IN, FilterSettings, Rules, Use
from gateway.config.settings import Config
from gateway.config.tenants import Tenant
from gateway.filtering.filters.build_filters import all_settings
from gateway.filtering.filters.clean_texts import CleanTexts
from gateway.filtering.filters.filter_policy import FloodRule, GuardRule, Policy, SizeRule
from gateway.filtering.filters.floods import FloodGate, ScriptStore
from gateway.filtering.filters.questions import guarded
from gateway.filtering.filters.text_filters import TextFilters, build_text_filters, prompt_filter
from gateway.filtering.guards.bounded import BoundedGuard
from gateway.filtering.guards.build_guards import GuardServices, build_guard
from gateway.tenancy.tenants.caller import Caller
from protos.errors import FilterFailed, ModelNotFound
from routing.dispatch.dispatch import RequestHandle
from safety.action import Action
from safety.screen import Finding, Rule, screened
from safety.sizes import Sizes

_ACTIONS: Final = {"flag": Action.FLAG, "redact": Action.REDACT, "block": Action.BLOCK}
#: Longer texts are scanned off the event loop.
INLINE_CHARACTERS: Final = 16 * 1024
_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")


class Policies:
    """Builds filters once; makes a policy when a tenant first uses a model, and caches it."""

    def __init__(
        self, config: Config, store: ScriptStore, services: GuardServices, texts: TextFilters | None = None
    ) -> None:
        """Needs a running event loop. `texts` are the filters of `config.safety`, if they are built already.

        Raises FilterUnusable and GuardUnusable.
        """
        safety = config.safety
        self._default: Rules = safety
        self._named: dict[str, Rules] = {policy.name: policy for policy in safety.policies}
        self._of_models = {model.name: model.safety for model in config.models if model.safety is not None}
        #: What other policies of the same settings may have, too.
        self.texts = texts = build_text_filters(safety) if texts is None else texts
        self._filters, self._of_prompts, self._missing = texts.filters, texts.of_prompts, texts.missing
        self._prefilter = texts.prefilter
        self._settings: dict[str, FilterSettings] = {}
        self._building = asyncio.Lock()
        self._guards: dict[str, BoundedGuard] = {}
        self._floods: dict[str, FloodGate] = {}
        for name, (where, settings) in all_settings(safety).items():
            self._settings[name] = settings
            if settings.guard is not None:
                self._guards[name] = build_guard(settings.guard, where, services)
            elif settings.floods is not None:
                self._floods[name] = FloodGate(store, settings.floods)
        self._encoding = services.encoding
        self._clean = CleanTexts()
        self._made: dict[tuple[str | None, tuple[str, ...]], Policy | None] = {}

    async def aclose(self) -> None:
        """Cancel guards' questions and close their connections."""
        await asyncio.gather(*(guard.aclose() for guard in self._guards.values()))

    def of(self, tenant: Tenant, *models: str) -> Policy | None:
        """Return the policy of a tenant's requests to a model, or to one model in place of another; None: no filters.

        Raises FilterFailed for a tenant whose rules are not in the configuration any more.
        """
        key = (tenant.safety, models)
        try:
            return self._made[key]
        except KeyError:
            policy = self._made[key] = self._policy(tenant, models)
            return policy

    async def scan_texts(self, caller: Caller, name: str | None, texts: Sequence[str]) -> list[list[Finding]]:
        """Scan each text with the filter of that name, or with the filters of the caller's prompts, or, where there are
        none, with the filters that need no settings.

        Raises ModelNotFound where there is no such filter, and FilterFailed.
        """
        tenant = caller.tenant.name
        await self._build_missing(caller.tenant, name)
        rules, guards, fail_open = self._scan_rules(caller.tenant, name)
        if sum(map(len, texts)) <= INLINE_CHARACTERS:
            found = _flagged(rules, texts)
        else:
            found = await self._encoding.run(RequestHandle(), tenant, _flagged, rules, texts)
        for index, text in enumerate(texts):
            found[index] += await guarded(guards, text, None, tenant, fail_open=fail_open)
        return found

    async def _build_missing(self, tenant: Tenant, name: str | None) -> None:
        """Build the built-in filters that a moderation needs and no rules name, off the event loop."""
        if name is None and (policy := self.of(tenant)) is not None and (policy.prompt or policy.prompt_guards):
            return
        async with self._building:
            for missing in sorted(self._missing.intersection(BUILT_IN if name is None else (name,))):
                self._filters[missing] = await asyncio.to_thread(prompt_filter, self._settings[missing], missing)
                self._missing.discard(missing)

    def _scan_rules(self, tenant: Tenant, name: str | None) -> tuple[list[Rule], list[GuardRule], bool]:
        rules = self._rules_of(tenant)
        if name is not None:
            # A tenant may not test texts against others' blocklists.
            own = {as_use(use).filter for use in (*rules.input, *rules.output)} | set(BUILT_IN)
            if name not in own or name in self._floods or self._settings[name].sizes is not None:
                shown = name if len(name) <= 128 else name[:128] + "..."
                raise ModelNotFound(f"There is no filter '{shown}'.", param="model")
            return *self._flagging([name]), False
        policy = self.of(tenant)
        if policy is None or not (policy.prompt or policy.prompt_guards):
            return *self._flagging(BUILT_IN), False
        guards = [guard for guard in policy.prompt_guards if "user" in guard.roles]
        return list(policy.prompt.get("user", ())), guards, policy.fail_open

    def _flagging(self, names: Sequence[str]) -> tuple[list[Rule], list[GuardRule]]:
        """Make rules for filters by name that only flag."""
        guards = [self._guard_rule(name, Action.FLAG) for name in names if name in self._guards]
        others = [name for name in names if name not in self._guards]
        others = [name for name in others if name not in self._floods and self._settings[name].sizes is None]
        return [self._rule(name, Action.FLAG, prompts=True) for name in others], guards

    def _rules_of(self, tenant: Tenant) -> Rules:
        if tenant.safety is None:
            return self._default
        named = self._named.get(tenant.safety)
        if named is None:
            raise FilterFailed.of(tenant.safety, f"the tenant {tenant.name} names this policy, and there is none")
        return named

    def _policy(self, tenant: Tenant, models: Sequence[str]) -> Policy | None:
        own = self._rules_of(tenant)
        all_rules = [own, *(self._named[self._of_models[model]] for model in models if model in self._of_models)]
        inputs = self._uses([rules.input for rules in all_rules])
        outputs = self._uses([rules.output for rules in all_rules])
        if not inputs and not outputs:
            return None
        texts = {name: action for name, action in inputs.items() if name in self._filters}
        by_role = {
            role: tuple(self._rule(name, texts[name], prompts=True) for name in texts if self._sees(name, role))
            for role in _ROLES
        }
        return Policy(
            prompt=by_role if texts else {},
            sizes=tuple(
                SizeRule(name, Sizes(sizes.prompt_characters, sizes.message_characters, sizes.messages), action)
                for name, action in inputs.items()
                if (sizes := self._settings[name].sizes) is not None
            ),
            floods=tuple(
                FloodRule(name, self._floods[name], action) for name, action in inputs.items() if name in self._floods
            ),
            prompt_guards=tuple(self._guard_rule(name, inputs[name]) for name in inputs if name in self._guards),
            answer=tuple(self._rule(name, action) for name, action in outputs.items() if name in self._filters),
            answer_guards=tuple(self._guard_rule(name, outputs[name]) for name in outputs if name in self._guards),
            fail_open=all(rules.on_failure == "fail_open" for rules in all_rules),
            record_text=own.record_text,
            clean=self._clean,
            prefilter=self._prefilter,
        )

    def _uses(self, lists: Sequence[Sequence[str | Use]]) -> dict[str, Action]:
        """Give each filter the strictest action of any list."""
        found: dict[str, Action] = {}
        for uses in lists:
            for written in uses:
                use = as_use(written)
                action = _ACTIONS[use.action or usual_action(self._settings[use.filter])]
                found[use.filter] = max(action, found.get(use.filter, action))
        return found

    def _sees(self, name: str, role: str) -> bool:
        injection = self._settings[name].injection
        return injection is None or role in injection.roles

    def _rule(self, name: str, action: Action, *, prompts: bool = False) -> Rule:
        filter_ = (self._of_prompts.get(name) if prompts else None) or self._filters.get(name)
        assert filter_ is not None, "a built-in filter that no rules name is built before it is asked for"
        return Rule(name, filter_, action)

    def _guard_rule(self, name: str, action: Action) -> GuardRule:
        settings = self._settings[name]
        guard = settings.guard
        assert guard is not None, "only guards come here"
        spans = settings.presidio is not None or settings.plugin is not None
        parallel = guard.parallel and action is not Action.REDACT
        return GuardRule(name, self._guards[name], action, parallel, guard.window_characters, spans, guard.roles)


def _flagged(rules: Sequence[Rule], texts: Sequence[str]) -> list[list[Finding]]:
    """List the findings of each rule in each text, independently of the others."""
    alone = [[rule._replace(action=Action.FLAG)] for rule in rules]
    return [[finding for rule in alone for finding in screened(text, rule).findings] for text in texts]
