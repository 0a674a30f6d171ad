"""The filters of a configuration that look at text alone; they take seconds to build, and may be built in a thread."""

from dataclasses import dataclass

from gateway.config.safety.safety_checks import as_use
from gateway.config.safety.settings import BUILT_IN, FilterSettings, Safety
from gateway.filtering.filters.build_filters import all_settings, text_filter
from safety.filter import StreamFilter
from safety.prefilter import Prefilter


@dataclass(frozen=True, slots=True)
class TextFilters:
    """Filters by name; `of_prompts` are those that find more in prompts than in answers.

    `missing` are built-in filters that no rules name: a moderation builds them.
    """

    filters: dict[str, StreamFilter]
    of_prompts: dict[str, StreamFilter]
    missing: set[str]
    prefilter: Prefilter | None


def build_text_filters(safety: Safety) -> TextFilters:
    """Build them. Raises FilterUnusable."""
    filters: dict[str, StreamFilter] = {}
    of_prompts: dict[str, StreamFilter] = {}
    missing: set[str] = set()
    used = {as_use(use).filter for rules in (safety, *safety.policies) for use in (*rules.input, *rules.output)}
    configured = {settings.name for settings in safety.filters}
    for name, (where, settings) in all_settings(safety).items():
        if name not in used and name not in configured and name in BUILT_IN:
            missing.add(name)
            continue
        built = text_filter(settings, where, prompts=False)
        if built is not None:
            filters[name] = built
            if settings.injection is not None:
                of_prompts[name] = prompt_filter(settings, where)
    every = [*(filters[name] for name in filters if name in used), *of_prompts.values()]
    return TextFilters(filters, of_prompts, missing, Prefilter(every) if every else None)


def prompt_filter(settings: FilterSettings, where: str) -> StreamFilter:
    """Build the filter of prompts of these settings, which look at text alone. Raises FilterUnusable."""
    built = text_filter(settings, where, prompts=True)
    assert built is not None, "only filters that look at text alone come here"
    return built
