"""Presidio behind the seam: the library itself is too large for the tests, so modules of its shape stand in for it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gateway.config.safety.guards import PresidioFilter
from gateway.filtering.guards.bounded import BoundedGuard
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.presidio_guard import PresidioGuard
from safety.guard import GuardFailed
from safety.match import Match
from tests.harness import bounded

WHERE = "safety.filters[0].presidio"
TEXT = "John Smith, mail john@example.com or 10.0.0.1"
FOLDER = str(Path(__file__).parent)


@dataclass
class Result:
    """As `presidio_analyzer.RecognizerResult`."""

    entity_type: str
    start: int
    end: int
    score: float


#: What version 2.2 gives for the text, in its order.
RESULTS = [
    Result("EMAIL_ADDRESS", 17, 33, 1.0),
    Result("PERSON", 0, 10, 0.85),
    Result("IP_ADDRESS", 37, 45, 0.6),
    Result("URL", 22, 33, 0.5),
]


@dataclass
class Fake:
    """What the stand-in was made with and asked, and what it finds."""

    installed: list[str] = field(default_factory=lambda: ["en_core_web_lg"])
    configuration: Any = None
    languages: Any = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    find: Callable[[], list[Any]] = lambda: RESULTS


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()

    class NlpEngineProvider:
        def __init__(self, *, nlp_configuration: Any) -> None:
            made.configuration = nlp_configuration

        def create_engine(self) -> str:
            return "an engine"

    class AnalyzerEngine:
        def __init__(self, *, nlp_engine: Any, supported_languages: list[str]) -> None:
            assert nlp_engine == "an engine"
            made.languages = supported_languages

        def get_supported_entities(self, language: str) -> list[str]:
            return ["PERSON", "EMAIL_ADDRESS", "URL", "IP_ADDRESS"]

        def analyze(self, *, text: str, language: str, entities: Any, score_threshold: float) -> list[Any]:
            made.asked.append({"text": text, "language": language, "entities": entities, "from": score_threshold})
            return made.find()

    presidio, engines, spacy = (ModuleType(name) for name in ("presidio_analyzer", "nlp_engine", "spacy"))
    vars(presidio)["AnalyzerEngine"] = AnalyzerEngine
    vars(engines)["NlpEngineProvider"] = NlpEngineProvider
    vars(spacy)["util"] = SimpleNamespace(is_package=lambda name: name in made.installed)
    monkeypatch.setitem(sys.modules, "presidio_analyzer", presidio)
    monkeypatch.setitem(sys.modules, "presidio_analyzer.nlp_engine", engines)
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    return made


def guarded(settings: PresidioFilter) -> list[Match]:
    found: list[list[Match]] = []

    async def main() -> None:
        bounded = BoundedGuard(PresidioGuard(settings, WHERE), settings)
        try:
            found.append(await bounded.verdict(TEXT))
        finally:
            await bounded.aclose()

    bounded(main)
    return found[0]


def refusal(settings: PresidioFilter) -> str:
    with pytest.raises(GuardUnusable) as caught:
        PresidioGuard(settings, WHERE)
    return str(caught.value)


def test_results_become_matches_in_order_without_overlaps(fake: Fake) -> None:
    assert guarded(PresidioFilter(threshold=0.4)) == [
        Match(0, 10, "person", 0.85),
        Match(17, 33, "email_address", 1.0),
        Match(37, 45, "ip_address", 0.6),
    ]
    assert fake.asked == [{"text": TEXT, "language": "en", "entities": None, "from": 0.4}]
    model = {"lang_code": "en", "model_name": "en_core_web_lg"}
    assert fake.configuration == {"nlp_engine_name": "spacy", "models": [model]}
    assert fake.languages == ["en"]


def test_the_entities_and_the_language_that_are_asked_for(fake: Fake) -> None:
    guarded(PresidioFilter(entities=("PERSON", "URL"), language="de", model=FOLDER))
    assert fake.asked == [{"text": TEXT, "language": "de", "entities": ["PERSON", "URL"], "from": 0.5}]
    assert fake.configuration["models"] == [{"lang_code": "de", "model_name": FOLDER}]
    assert fake.languages == ["de"]


@pytest.mark.parametrize(
    "results",
    [
        [Result("PERSON", 0, 1000, 1.0)],
        [Result("PERSON", 0, 3, 7.0)],
        [Result("", 0, 3, 1.0)],
        [None],
        [Result(None, 0, 3, 1.0)],  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_a_failure(fake: Fake, results: list[Any]) -> None:
    fake.find = lambda: results
    with pytest.raises(GuardFailed):
        guarded(PresidioFilter())


def test_its_errors_show_nothing_of_the_text(fake: Fake) -> None:
    def fail() -> list[Any]:
        raise ValueError(TEXT)

    fake.find = fail
    with pytest.raises(GuardFailed) as caught:
        guarded(PresidioFilter())
    assert caught.value.problem.startswith("ValueError in test_presidio_guard.py:")


def test_what_is_missing_is_said_at_the_start(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(PresidioFilter(model="de_core_news_sm")) == (
        "safety.filters[0].presidio.model: de_core_news_sm is not installed; it comes with: "
        "python -m spacy download de_core_news_sm"
    )
    assert refusal(PresidioFilter(entities=("PERSON", "SHOE_SIZE"))) == (
        "safety.filters[0].presidio.entities[1]: Presidio does not know SHOE_SIZE in this language"
    )
    monkeypatch.setitem(sys.modules, "spacy", None)
    said = refusal(PresidioFilter())
    assert said.startswith("safety.filters[0].presidio: Presidio cannot be imported: ")


def test_that_it_is_not_installed_is_said_at_the_start() -> None:
    said = "presidio_analyzer is not installed; it comes with: pip install presidio-analyzer"
    assert refusal(PresidioFilter()) == f"safety.filters[0].presidio: {said}"


def test_an_engine_that_does_not_start(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**settings: Any) -> None:
        raise OSError("the model\nis for another version")

    monkeypatch.setattr(sys.modules["presidio_analyzer.nlp_engine"], "NlpEngineProvider", fail)
    said = refusal(PresidioFilter())
    assert said.startswith("safety.filters[0].presidio: Presidio cannot start: OSError: the model")
    assert "\n" not in said
