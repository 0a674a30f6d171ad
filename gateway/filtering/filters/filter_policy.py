"""A filter policy: the rules of one tenant and one model, ready to be applied."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from gateway.config.safety.guards import GUARDED
from gateway.filtering.filters.clean_texts import CleanTexts
from gateway.filtering.filters.floods import FloodGate
from safety.action import Action
from safety.filter import PromptDependent
from safety.guard import Guard
from safety.prefilter import Prefilter, PrefilterPass
from safety.screen import Rule, Screen
from safety.screening import Screening
from safety.sizes import Sizes

#: Roles of the prompt's messages whose canaries answers are screened for.
INSTRUCTION_ROLES: Final = ("system", "developer")


class NewScreen(Protocol):
    """Makes the screen of one text of an answer."""

    def __call__(self) -> Screen:
        """Make a screen for one text."""
        ...


@dataclass(frozen=True, slots=True)
class GuardRule:
    """A guard under its configured name, and the action on its verdict.

    `parallel`: the prompt may be computed before the verdict. `window`: characters of an answer gathered for a
    question. `spans`: its matches are spans of the text, not about the text as a whole. `roles`: the prompt roles it is
    asked about.
    """

    name: str
    guard: Guard
    action: Action
    parallel: bool
    window: int
    spans: bool
    roles: tuple[str, ...] = GUARDED


@dataclass(frozen=True, slots=True)
class SizeRule:
    """Bounds on a request, and the action on exceeding them."""

    name: str
    sizes: Sizes
    action: Action


@dataclass(frozen=True, slots=True)
class FloodRule:
    """A count of similar prompts, and the action on too many."""

    name: str
    gate: FloodGate
    action: Action


class TextRules(NamedTuple):
    """Rules for a text, and those of them that must scan it; `key` identifies the rules."""

    rules: tuple[Rule, ...]
    prefilter_pass: PrefilterPass
    key: int


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules for a prompt, by its messages' roles, and for answers."""

    prompt: Mapping[str, tuple[Rule, ...]]
    sizes: tuple[SizeRule, ...]
    floods: tuple[FloodRule, ...]
    prompt_guards: tuple[GuardRule, ...]
    answer: tuple[Rule, ...]
    answer_guards: tuple[GuardRule, ...]
    fail_open: bool
    record_text: bool
    clean: CleanTexts = field(default_factory=CleanTexts, repr=False, compare=False)
    prefilter: Prefilter | None = field(default=None, repr=False, compare=False)
    #: The rules for the texts of each role, if there are any.
    rules_by_role: Mapping[str, TextRules | None] = field(init=False, repr=False, compare=False)
    #: The screening of answers to prompts without canaries of their own.
    default_screening: Screening | None = field(init=False, repr=False, compare=False)
    _has_canaries: bool = field(init=False, repr=False, compare=False)
    #: Whether sizes, floods or guards check the prompt beyond its single texts.
    has_prompt_rules: bool = field(init=False, repr=False, compare=False)
    #: Whether prompts are scanned, or needed to screen answers.
    reads_prompts: bool = field(init=False, repr=False, compare=False)
    #: Whether the verdict depends on single texts alone, so that clean ones need no second scan.
    texts_only: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Rules live as long as their policy, so identity identifies them.
        rules_by_role = {
            role: TextRules(rules, self._prefilter_pass(rules), id(rules)) if rules else None
            for role, rules in self.prompt.items()
        }
        object.__setattr__(self, "rules_by_role", rules_by_role)
        usual = Screening(self.answer, self._prefilter_pass(self.answer), self.fail_open) if self.answer else None
        object.__setattr__(self, "default_screening", usual)
        has_canaries = any(isinstance(rule.filter, PromptDependent) for rule in self.answer)
        object.__setattr__(self, "_has_canaries", has_canaries)
        beyond = bool(self.sizes or self.floods or self.prompt_guards)
        object.__setattr__(self, "has_prompt_rules", beyond)
        alone = not (beyond or has_canaries or self.answer_guards)
        object.__setattr__(self, "texts_only", alone)
        object.__setattr__(self, "reads_prompts", bool(beyond or self.prompt or has_canaries or self.answer_guards))

    def screening(self, instructions: Iterable[str]) -> Screening | None:
        """Make the screening of answers to a prompt with these system messages; None: there is none."""
        if not self._has_canaries:
            return self.default_screening
        rules = tuple(
            rule._replace(filter=rule.filter.for_prompt(instructions))
            if isinstance(rule.filter, PromptDependent)
            else rule
            for rule in self.answer
        )
        return Screening(rules, self._prefilter_pass(rules), self.fail_open)

    def _prefilter_pass(self, rules: Sequence[Rule]) -> PrefilterPass:
        if self.prefilter is not None:
            return self.prefilter.prefilter_pass([rule.filter for rule in rules])
        every = range(len(rules))
        return lambda _: every
