"""Find filters and guards that cannot be built on this machine."""

from gateway.config.safety.safety_checks import Problems, kind_of
from gateway.config.settings import Config
from gateway.filtering.guards.unusable_guards import unusable_guard


def unusable_filters(config: Config) -> Problems:
    """List filters that cannot be built on this machine, as (path, problem): terms, expressions, kinds, keys."""
    if not config.safety.filters:
        return
    # Imported here: the libraries are slow to import, and a configuration without filters needs none.
    from gateway.filtering.filters.build_filters import FilterUnusable, all_settings, kind_problems, text_filter

    for where, settings in all_settings(config.safety).values():
        if settings.pii is not None:
            yield from kind_problems(settings.pii, f"{where}.pii")
        elif settings.injection is None:
            # The rules of those two are Penstock's own: they compile everywhere, in seconds.
            try:
                text_filter(settings, where, prompts=True)
            except FilterUnusable as error:
                yield error.where, error.problem
        if settings.guard is not None:
            yield from unusable_guard(settings.guard, f"{where}.{kind_of(settings)}")
