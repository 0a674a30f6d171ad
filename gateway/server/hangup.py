"""The answer to SIGHUP: nothing is reloaded, and the log names the fields that a restart would change."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config

log = logging.getLogger(__name__)

_MOST_NAMED: Final = 20


def say_what_changed(config: Config, file: Path) -> None:
    """Log how the configuration file differs from what runs; values are not shown."""
    try:
        changed = list(changed_fields(config, load_config(file)))
    except ConfigError as error:
        log.error("SIGHUP reloads nothing, and a restart would fail: %s", error)  # noqa: TRY400
        return
    if not changed:
        log.info("SIGHUP reloads nothing; %s says what runs already", file)
        return
    named = ", ".join(changed[:_MOST_NAMED])
    more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    log.warning("SIGHUP reloads nothing; restart for what has changed in %s: %s%s", file, named, more)


def changed_fields(before: Config, after: Config) -> Iterator[str]:
    """Give the path of each field that differs, as the file has it."""
    return _changed("", msgspec.to_builtins(before), msgspec.to_builtins(after))


def _changed(path: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            inside = f"{path}.{name}" if path else str(name)
            if name in before and name in after:
                yield from _changed(inside, before[name], after[name])
            else:
                yield inside
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        for index in range(max(len(before), len(after))):
            inside = f"{path}[{index}]"
            if index < min(len(before), len(after)):
                yield from _changed(inside, before[index], after[index])
            else:
                yield f"{inside} ({'added' if index < len(after) else 'removed'})"
    elif before != after:
        yield path
