"""Find the journal that a command works on."""

import argparse
from pathlib import Path
from typing import NamedTuple

from gateway.config.observability.journal import journal_settings
from gateway.reload.serving_config import serving_config


class JournalLocation(NamedTuple):
    """A journal's folder, and the key of its chains where there is one."""

    folder: Path
    key_file: Path | None


def locate_journal(arguments: argparse.Namespace) -> JournalLocation:
    """Locate the journal by `--folder`, or else by the configuration.

    Raises:
        ConfigError: The configuration cannot be used.
    """
    if arguments.folder is not None:
        return JournalLocation(arguments.folder, None)
    config = serving_config("audit", arguments.config)
    settings = journal_settings(config.observability.journal, config.state_dir)
    return JournalLocation(settings.folder, settings.key_file)
