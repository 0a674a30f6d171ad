"""Build the text filters from the configuration.

Each filter's module is imported for the filter that is built: a worker without filters has no memory for their tables.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.config.safety.settings import BUILT_IN, FilterSettings, InjectionFilter, PiiFilter, Safety, TermsFilter
from safety.filter import StreamFilter
from safety.pii.kinds import KINDS, SECRETS

if TYPE_CHECKING:
    from safety.terms import TermFilter

_NO_SETTINGS: Final = {
    "pii": FilterSettings(name="pii", pii=PiiFilter()),
    "secrets": FilterSettings(name="secrets", pii=PiiFilter(detect=tuple(sorted(SECRETS)))),
    "injection": FilterSettings(name="injection", injection=InjectionFilter()),
}


class FilterUnusable(Exception):
    """A filter cannot be built. `where` is the configuration's field, `problem` one line for its author."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


def all_settings(safety: Safety) -> dict[str, tuple[str, FilterSettings]]:
    """List every filter by name, with its place in the configuration; configured ones override built-in ones."""
    found = {name: (f"safety ({name})", _NO_SETTINGS[name]) for name in BUILT_IN}
    found |= {settings.name: (f"safety.filters[{i}]", settings) for i, settings in enumerate(safety.filters)}
    return found


def text_filters(safety: Safety, *, prompts: bool) -> dict[str, StreamFilter]:
    """Build every filter that works on text alone, by name, for prompts or for answers. Raises FilterUnusable."""
    built: dict[str, StreamFilter] = {}
    for name, (where, settings) in all_settings(safety).items():
        filter_ = text_filter(settings, where, prompts=prompts)
        if filter_ is not None:
            built[name] = filter_
    return built


def text_filter(settings: FilterSettings, where: str, *, prompts: bool) -> StreamFilter | None:
    """Build one filter; None for a guard. Some filters find more in prompts, which need no streaming.

    Raises FilterUnusable.
    """
    if settings.pii is not None:
        from safety.pii.pii_filter import PiiFilter as Pii

        return Pii(_kinds(settings.pii, f"{where}.pii"))
    if settings.injection is not None:
        if prompts:
            from safety.injection.prompts import PromptInjectionFilter

            return PromptInjectionFilter(settings.injection.threshold)
        from safety.injection.injection_filter import InjectionFilter as AnswerInjectionFilter

        return AnswerInjectionFilter(settings.injection.threshold)
    if settings.terms is not None:
        return _terms(settings.name, settings.terms, f"{where}.terms")
    if settings.expressions is not None:
        from safety.expressions import BadExpression, ExpressionFilter

        expressions = settings.expressions
        try:
            return ExpressionFilter(settings.name, expressions.patterns, ignore_case=expressions.ignore_case)
        except BadExpression as error:
            raise FilterUnusable(f"{where}.expressions.patterns[{error.index}]", error.problem) from error
    if settings.canaries is not None:
        from safety.canaries import CanaryFilter
        from safety.terms import TermError

        try:
            return CanaryFilter(settings.canaries.tokens, settings.canaries.prefix)
        except TermError as error:
            raise FilterUnusable(f"{where}.canaries.tokens[{error.index}]", error.problem) from error
    return None


def _kinds(settings: PiiFilter, where: str) -> frozenset[str]:
    for path, problem in kind_problems(settings, where):
        raise FilterUnusable(path, problem)
    return frozenset(settings.detect or KINDS) - frozenset(settings.ignore)


def kind_problems(settings: PiiFilter, where: str) -> Iterator[tuple[str, str]]:
    """List problems with the kinds of personal data that a filter names, as (path, problem)."""
    for field in ("detect", "ignore"):
        for index, kind in enumerate(getattr(settings, field)):
            if kind not in KINDS:
                yield f"{where}.{field}[{index}]", f"there is no kind {kind}; `penstock safety kinds` lists them"


def _terms(name: str, settings: TermsFilter, where: str) -> "TermFilter":
    from safety.term_list import TermListError, read_terms
    from safety.terms import TermError, TermFilter

    terms = list(settings.terms)
    own = len(terms)
    if settings.file is not None:
        try:
            terms += read_terms(Path(settings.file))
        except TermListError as error:
            raise FilterUnusable(f"{where}.file", str(error)) from error
    try:
        return TermFilter(name, terms, words=settings.match == "word")
    except TermError as error:
        if error.index < own:
            raise FilterUnusable(f"{where}.terms[{error.index}]", error.problem) from error
        line = f"{settings.file}, term {error.index - own + 1}"
        raise FilterUnusable(f"{where}.file", f"{line}: {error.problem}") from error
