"""A guard that runs the user's own filter: a class with `scan(text)`, loaded by name and run in threads."""

import importlib
import inspect
from collections.abc import Callable, Iterable
from itertools import islice
from typing import cast

from gateway.config.safety.guards import PluginFilter
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.threads import Call, GuardThreads
from gateway.filtering.guards.verdicts import MAX_MATCHES, disjoint, label_of
from safety.guard import GuardFailed
from safety.match import Match


class PluginGuard:
    """A `Guard` that calls a plugin."""

    def __init__(self, settings: PluginFilter, where: str) -> None:
        """`where` is its place in the configuration, as `safety.filters[2].plugin`. Raises GuardUnusable."""
        scan = load_scan(settings, where)
        self._threads = GuardThreads(lambda text: _matches(scan(text), len(text)), settings.threads, "plugin")

    async def ask(self, text: str, prompt: str | None, tenant: str) -> object:
        """Scan the text alone: the plugin sees neither the prompt nor the tenant."""
        return await self._threads.run(text)

    async def aclose(self) -> None:
        """Close the threads; a call that hangs goes on until the process ends."""
        self._threads.close()


def plugin_class(settings: PluginFilter, where: str) -> Callable[..., object]:
    """Load the plugin's class and check its parameters. Raises GuardUnusable, which names the field."""
    target = settings.target
    module_name, _, class_name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise GuardUnusable(f"{where}.target", f"{module_name} cannot be imported: {_error_text(error)}") from error
    kind: Callable[..., object] | None = getattr(module, class_name, None)
    if kind is None:
        raise GuardUnusable(f"{where}.target", f"{module_name} has nothing of that name: {class_name}")
    if not callable(kind):
        raise GuardUnusable(f"{where}.target", f"{target} is nothing that can be called")
    try:
        signature = inspect.signature(kind)
    except (TypeError, ValueError):
        return kind  # of classes that are not Python's own code it may be unknown
    try:
        signature.bind(**settings.settings)
    except TypeError as error:
        raise GuardUnusable(f"{where}.settings", f"{target} does not take them: {error}") from error
    return kind


def load_scan(settings: PluginFilter, where: str) -> Call:
    """Make the plugin with its settings; return its `scan`. Raises GuardUnusable, which names the field."""
    kind, target = plugin_class(settings, where), settings.target
    try:
        plugin = kind(**settings.settings)
    except Exception as error:
        raise GuardUnusable(where, f"{target} cannot be made with its settings: {_error_text(error)}") from error
    scan = getattr(plugin, "scan", None)
    if not callable(scan):
        raise GuardUnusable(f"{where}.target", f"what {target} makes has no method scan(text)")
    if inspect.iscoroutinefunction(scan):
        raise GuardUnusable(f"{where}.target", f"the method scan of {target} is async; it runs in a thread")
    return cast("Call", scan)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _matches(found: object, length: int) -> list[Match]:
    """Convert a plugin's matches, in any order; its code that still has to run, as a generator's, runs here."""
    if not isinstance(found, Iterable):
        raise GuardFailed("scan gives nothing that can be gone through")
    matches = []
    for each in islice(found, MAX_MATCHES + 1):
        if not isinstance(each, tuple | list) or len(each) != 4:
            raise GuardFailed("a match that is not start, end, label and score")
        start, end, label, score = each
        # Further errors are found when the verdict is checked; these values can be compared.
        if type(start) is not int or type(end) is not int or not 0 <= start < end <= length:
            raise GuardFailed("a match that is no stretch of the text")
        if type(label) is not str or type(score) not in (int, float):
            raise GuardFailed("a match whose label is no text, or whose score is no number")
        matches.append(Match(start, end, label_of(label), score))
    if len(matches) > MAX_MATCHES:
        raise GuardFailed(f"more than {MAX_MATCHES} matches")
    return disjoint(matches)
