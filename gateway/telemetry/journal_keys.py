"""The keys of the journal's chain and of its hashes."""

from gateway.config.observability.journal import journal_settings
from gateway.config.settings import Config
from observability.digests import DigestKeyError, digest_key


class TelemetryKeyError(Exception):
    """A key cannot be used; the text is one line for an operator."""


def make_keys(config: Config) -> None:
    """Make the journal's missing keys. Raises TelemetryKeyError."""
    if not config.observability.journal.enabled:
        return
    # Imported here: a configuration without a journal does not need it.
    from observability.journal.signer import JournalKeyError, create_key

    settings = journal_settings(config.observability.journal, config.state_dir)
    try:
        digest_key(config.state_dir)
        if settings.key_file is not None:
            create_key(settings.key_file)
    except (DigestKeyError, JournalKeyError) as error:
        raise TelemetryKeyError(f"{error}") from error
