"""The rules for one tenant and one model, ready to be applied."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from gateway.config.safety.guards import GUARDED
from gateway.filtering.filters.clean_texts import CleanTexts
from gateway.filtering.filters.floods import FloodGate
from safety.action import Action
from safety.canaries import CanaryFilter
from safety.guard import Guard
from safety.prefilter import Prefilter, PrefilterPass
from safety.screen import Rule, Screen, Screening
from safety.sizes import Sizes

#: Whose words in a prompt the canaries of an answer stand in.
INSTRUCTING: Final = ("system", "developer")


class NewScreen(Protocol):
    """Makes what one text of an answer is screened by."""

    def __call__(self) -> Screen:
        """A screen for one text."""
        ...


@dataclass(frozen=True, slots=True)
class GuardRule:
    """A guard under its configured name, and what its verdict does.

    `parallel`: a prompt may be computed before the verdict. `window`: of an answer so many characters are gathered
    for a question. `spans`: its matches are stretches, and not about the text as a whole. `roles`: of a prompt it is
    asked about the texts of these.
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
    """Bounds on a request, and what exceeding them does."""

    name: str
    sizes: Sizes
    action: Action


@dataclass(frozen=True, slots=True)
class FloodRule:
    """A count of prompts that are alike, and what too many do."""

    name: str
    gate: FloodGate
    action: Action


class Look(NamedTuple):
    """Rules for a text, and which of them have to be asked about it; `key` tells the rules from others."""

    rules: tuple[Rule, ...]
    prefilter_pass: PrefilterPass
    key: int


@dataclass(frozen=True, slots=True)
class Policy:
    """What looks at a prompt, by its messages' roles, and at answers."""

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
    #: What looks at the texts of each role, if anything does.
    looks: Mapping[str, Look | None] = field(init=False, repr=False, compare=False)
    #: For answers to prompts that bring no canaries of their own.
    usual_screening: Screening | None = field(init=False, repr=False, compare=False)
    _has_canaries: bool = field(init=False, repr=False, compare=False)
    #: Whether more is asked about prompts than what is in their texts, one by one.
    looks_beyond_texts: bool = field(init=False, repr=False, compare=False)
    #: Whether anything looks at prompts, or must know them to look at answers.
    looks_at_prompts: bool = field(init=False, repr=False, compare=False)
    #: Whether all that may come of a prompt comes of its texts, one by one: those that are clean change nothing.
    of_texts_alone: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Rules live as long as their policy, so they are told apart by identity.
        looks = {
            role: Look(rules, self._prefilter_pass(rules), id(rules)) if rules else None
            for role, rules in self.prompt.items()
        }
        object.__setattr__(self, "looks", looks)
        usual = Screening(self.answer, self._prefilter_pass(self.answer), self.fail_open) if self.answer else None
        object.__setattr__(self, "usual_screening", usual)
        has_canaries = any(isinstance(rule.filter, CanaryFilter) for rule in self.answer)
        object.__setattr__(self, "_has_canaries", has_canaries)
        beyond = bool(self.sizes or self.floods or self.prompt_guards)
        object.__setattr__(self, "looks_beyond_texts", beyond)
        alone = not (beyond or has_canaries or self.answer_guards)
        object.__setattr__(self, "of_texts_alone", alone)
        object.__setattr__(self, "looks_at_prompts", bool(beyond or self.prompt or has_canaries or self.answer_guards))

    def screening(self, instructions: Iterable[str]) -> Screening | None:
        """What the answers to a prompt with those system messages are screened by; None: nothing."""
        if not self._has_canaries:
            return self.usual_screening
        rules = tuple(
            rule._replace(filter=rule.filter.for_prompt(instructions))
            if isinstance(rule.filter, CanaryFilter)
            else rule
            for rule in self.answer
        )
        return Screening(rules, self._prefilter_pass(rules), self.fail_open)

    def _prefilter_pass(self, rules: Sequence[Rule]) -> PrefilterPass:
        if self.prefilter is not None:
            return self.prefilter.prefilter_pass([rule.filter for rule in rules])
        every = range(len(rules))
        return lambda _: every
