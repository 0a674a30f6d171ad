"""Filters of the user's own: how they are found, and what becomes of what they give."""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from gateway.config.safety.guards import PluginFilter
from gateway.filtering.guards.bounded import BoundedGuard
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.plugin_guard import PluginGuard
from safety.guard import GuardFailed
from safety.match import Match
from tests.loops import bounded

MODULE = "penstock_test_plugin"
WHERE = "safety.filters[2].plugin"
TEXT = "call me on Monday, call me on Tuesday"


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, object], None]:
    """Put something into a module that can be imported."""
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    return lambda name, value: setattr(module, name, value)


Put = Callable[[str, object], None]


def settings_of(name: str = "Filter", **settings: Any) -> PluginFilter:
    return PluginFilter(target=f"{MODULE}:{name}", settings=settings, threads=1)


def scanning(found: Callable[[str], object]) -> type:
    class Filter:
        def scan(self, text: str) -> object:
            return found(text)

    return Filter


def guarded(put: Put, found: Callable[[str], object], text: str = TEXT) -> list[Match]:
    """What a guard makes of what a plugin gives."""
    put("Filter", scanning(found))
    verdicts: list[list[Match]] = []

    async def main() -> None:
        settings = settings_of()
        bounded = BoundedGuard(PluginGuard(settings, WHERE), settings)
        try:
            verdicts.append(await bounded.verdict(text))
        finally:
            await bounded.aclose()

    bounded(main)
    return verdicts[0]


def refusal(settings: PluginFilter) -> str:
    with pytest.raises(GuardUnusable) as caught:
        PluginGuard(settings, WHERE)
    return str(caught.value)


async def test_a_class_made_with_its_settings(plugin: Put) -> None:
    class Words:
        def __init__(self, words: list[str], score: float = 0.25) -> None:
            self.words, self.score = words, score

        def scan(self, text: str) -> Iterator[tuple[int, int, str, float]]:
            for word in self.words:
                at = text.find(word)
                if at >= 0:
                    yield at, at + len(word), f"Day of Week: {word}", self.score

    plugin("Words", Words)

    settings = settings_of("Words", words=["Tuesday", "Monday"])
    bounded = BoundedGuard(PluginGuard(settings, WHERE), settings)
    assert await bounded.verdict(TEXT) == [
        Match(11, 17, "day_of_week_monday", 0.25),
        Match(30, 37, "day_of_week_tuesday", 0.25),
    ]
    await bounded.aclose()


def test_overlapping_matches_become_one_of_the_likelier_label(plugin: Put) -> None:
    found = [(5, 10, "b", 0.9), (0, 6, "a", 0.5), (10, 12, "c", 1), [20, 21, "d", 0.0]]
    assert guarded(plugin, lambda text: found) == [
        Match(0, 10, "b", 0.9),
        Match(10, 12, "c", 1.0),
        Match(20, 21, "d", 0.0),
    ]


@pytest.mark.parametrize(
    "found",
    [
        lambda text: None,
        lambda text: 3,
        lambda text: "unsafe",
        lambda text: [(0, 1)],
        lambda text: [None],
        lambda text: [(0, 1, "x", "y")],
        lambda text: [(0, 1, None, 1.0)],
        lambda text: [(0, 1, "?!", 1.0)],
        lambda text: [(0, 1, "x", float("nan"))],
        lambda text: [(0, 1, "x", 2)],
        lambda text: [("0", "1", "x", 1.0)],
        lambda text: [(1, 1, "x", 1.0)],
        lambda text: [(0, len(text) + 1, "x", 1.0)],
        lambda text: [(0, 1, "x", 1.0)] * 10_001,
        lambda text: (one for one in iter(lambda: (0, 1, "x", 1.0), None)),
        lambda text: 1 / 0,
        lambda text: (1 / 0 for _ in text),
        lambda text: sys.exit(text),
    ],
)
def test_nonsense_is_a_failure(plugin: Put, found: Callable[[str], object]) -> None:
    with pytest.raises(GuardFailed) as caught:
        guarded(plugin, found)
    assert TEXT not in caught.value.problem


class _Raises:
    def __init__(self, **settings: object) -> None:
        raise RuntimeError("no such dictionary")


class _Words:
    def __init__(self, words: list[str]) -> None:
        self.words = words


class _Async:
    async def scan(self, text: str) -> list[object]:
        return []


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            PluginFilter(target="penstock_no_such_module:Filter"),
            "safety.filters[2].plugin.target: penstock_no_such_module cannot be imported: ModuleNotFoundError: ",
        ),
        (settings_of("Absent"), f"safety.filters[2].plugin.target: {MODULE} has nothing of that name: Absent"),
        (settings_of("number"), f"safety.filters[2].plugin.target: {MODULE}:number is nothing that can be called"),
        (
            settings_of("object"),
            f"safety.filters[2].plugin.target: what {MODULE}:object makes has no method scan(text)",
        ),
        (settings_of("Async"), f"safety.filters[2].plugin.target: the method scan of {MODULE}:Async is async"),
        (
            settings_of("Raises"),
            f"safety.filters[2].plugin: {MODULE}:Raises cannot be made with its settings: RuntimeError: no such",
        ),
        (
            settings_of("Words", words=[], word="x"),
            f"safety.filters[2].plugin.settings: {MODULE}:Words does not take them: got an unexpected keyword argument",
        ),
        (
            settings_of("Words"),
            f"safety.filters[2].plugin.settings: {MODULE}:Words does not take them: missing a required",
        ),
        (
            settings_of("Builtin", unknown=1),
            f"safety.filters[2].plugin: {MODULE}:Builtin cannot be made with its settings: TypeError: ",
        ),
    ],
)
def test_what_cannot_be_used_is_said_at_the_start(plugin: Put, settings: PluginFilter, problem: str) -> None:
    made = {"number": 3, "object": object, "Async": _Async, "Raises": _Raises, "Words": _Words, "Builtin": int}
    for name, value in made.items():
        plugin(name, value)
    said = refusal(settings)
    assert said.startswith(problem)
    assert "\n" not in said


def test_a_module_that_does_not_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / f"{MODULE}_broken.py").write_text("def scan(:\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    said = refusal(PluginFilter(target=f"{MODULE}_broken:Filter"))
    assert "cannot be imported: SyntaxError" in said
    assert "\n" not in said
