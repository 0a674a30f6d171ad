"""The scrape key, which opens `/metrics` and nothing else: who reads numbers need not be able to change anything."""

from gateway.admin.admin_key import FORM, FORM_WORDS, AdminKeyError, matches
from gateway.config.provider_secret import Secret, SecretError, read_source
from gateway.config.secrets import SecretSource
from gateway.config.settings import Config
from protos.renewed import Renewed


def read_scrape_key(source: SecretSource) -> Secret:
    """Read the key from the environment or a file. Raises SecretError."""
    key = read_source(source).strip()
    if not FORM.fullmatch(key):
        raise SecretError(f"{source.shown}: the key must have {FORM_WORDS}")
    return Secret(key)


def check_scrape_key(config: Config, admin_key: str) -> None:
    """Check that the scrape key, if there is one, opens less than the admin key. Raises AdminKeyError."""
    source = config.admin.scrape_key
    if source is None:
        return
    try:
        same = read_scrape_key(source).reveal() == admin_key
    except SecretError as error:
        raise AdminKeyError(f"admin.scrape_key: {error}") from error
    if same:
        raise AdminKeyError("admin.scrape_key: it is the admin key, which opens everything; make another one")


class ScrapeKey:
    """The key of a source; if its file becomes unusable, the last usable key stays."""

    def __init__(self, source: SecretSource) -> None:
        """Raises SecretError."""
        self._renewed = Renewed([] if source.path is None else [source.path], lambda: read_scrape_key(source))

    def matches(self, authorization: str | None) -> bool:
        """Compare an `Authorization` header with the key in constant time."""
        return matches(authorization, self._renewed.get().reveal())
