"""Guard rules that span fields or that a type cannot say."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from gateway.config.errors import echo
from gateway.config.safety.guards import Asking, HttpGuard, ModelGuard, OnnxGuardSettings
from gateway.config.secrets import source_problems, with_absolute_file
from routing.transports.http.origin import origin_of

G = TypeVar("G", bound=Asking)


def guard_problems(settings: Asking, where: str, models: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule. `where` is the guard's path, as `safety.filters[2].http`.

    `models` are the names that models can be asked for by, those with adapters included.
    """
    if isinstance(settings, ModelGuard):
        if settings.name not in models:
            yield f"{where}.name", f"there is no model {echo(settings.name)}"
        if settings.instruction is not None and "{text}" not in settings.instruction:
            yield f"{where}.instruction", "expected {text} in it, where the text goes"
        verdicts = {name: getattr(settings, name).strip() for name in ("unsafe", "safe")}
        for name, verdict in verdicts.items():
            if not verdict:
                yield f"{where}.{name}", "expected a word, not white space alone"
        if verdicts["unsafe"].casefold() == verdicts["safe"].casefold():
            yield f"{where}.safe", "is the same as unsafe"
    elif isinstance(settings, HttpGuard):
        try:
            tls = origin_of(settings.url).tls
        except ValueError as error:
            yield f"{where}.url", str(error)
        else:
            if settings.ca is not None and not tls:
                yield f"{where}.ca", "is of no use with an address that begins with http://"
        yield from source_problems(settings.api_key, f"{where}.api_key")
    elif isinstance(settings, OnnxGuardSettings) and 2 * settings.overlap_tokens > settings.max_tokens:
        yield f"{where}.overlap_tokens", "is more than half of max_tokens"


def with_absolute_files(settings: G, folder: Path) -> G:
    """Give the guard with relative file paths made absolute under `folder`."""
    if isinstance(settings, OnnxGuardSettings):
        return msgspec.structs.replace(settings, path=os.path.abspath(folder / settings.path))
    if not isinstance(settings, HttpGuard):
        return settings
    ca = None if settings.ca is None else os.path.abspath(folder / settings.ca)
    return msgspec.structs.replace(settings, ca=ca, api_key=with_absolute_file(settings.api_key, folder))
