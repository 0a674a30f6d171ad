"""A guard by Microsoft Presidio's analyzer, where it is installed."""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from gateway.config.safety.guards import PresidioFilter
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.threads import GuardThreads
from gateway.filtering.guards.verdicts import disjoint, label_of
from safety.match import Match


class PresidioGuard:
    """A `Guard` that runs the analyzer in this process."""

    def __init__(self, settings: PresidioFilter, where: str) -> None:
        """`where` is its place in the configuration, as `safety.filters[2].presidio`. Loads the model, which takes
        seconds. Raises GuardUnusable.
        """
        self._settings = settings
        self._analyzer = _analyzer(settings, where)
        self._entities = list(settings.entities) or None
        self._threads = GuardThreads(self._matches, settings.threads, "presidio")

    async def ask(self, text: str, prompt: str | None, tenant: str) -> object:
        """Analyze the text; Presidio does not see the prompt."""
        return await self._threads.run(text)

    async def aclose(self) -> None:
        self._threads.close()

    def _matches(self, text: str) -> list[Match]:
        found = self._analyzer.analyze(
            text=text,
            language=self._settings.language,
            entities=self._entities,
            score_threshold=self._settings.threshold,
        )
        return disjoint(Match(result.start, result.end, label_of(result.entity_type), result.score) for result in found)


def presidio_problem() -> str:
    """Say why Presidio cannot be used, as far as that is known without loading it; empty: it can."""
    for name in ("presidio_analyzer", "spacy"):
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            return f"{name} is not installed; it comes with: pip install presidio-analyzer"
    return ""


def _analyzer(settings: PresidioFilter, where: str) -> Any:
    if problem := presidio_problem():
        raise GuardUnusable(where, problem)
    try:
        presidio = importlib.import_module("presidio_analyzer")
        engines = importlib.import_module("presidio_analyzer.nlp_engine")
        spacy = importlib.import_module("spacy")
    except ImportError as error:
        raise GuardUnusable(where, f"Presidio cannot be imported: {error}") from error
    # Presidio would download it.
    if not spacy.util.is_package(settings.model) and not Path(settings.model).exists():
        problem = f"{settings.model} is not installed; it comes with: python -m spacy download {settings.model}"
        raise GuardUnusable(f"{where}.model", problem)
    models = [{"lang_code": settings.language, "model_name": settings.model}]
    try:
        provider = engines.NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models})
        analyzer = presidio.AnalyzerEngine(nlp_engine=provider.create_engine(), supported_languages=[settings.language])
        known = set(analyzer.get_supported_entities(language=settings.language))
    except Exception as error:
        raise GuardUnusable(where, f"Presidio cannot start: {type(error).__name__}: {error}"[:300]) from error
    for index, entity in enumerate(settings.entities):
        if entity not in known:
            raise GuardUnusable(f"{where}.entities[{index}]", f"Presidio does not know {entity} in this language")
    return analyzer
