"""The section `store`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.secrets import SecretSource, source_problems, with_absolute_file
from gateway.config.store.address import address_problem, parse_address


class Store(Record, frozen=True, kw_only=True):
    """The Redis-protocol store that all workers share."""

    url: Annotated[
        str | SecretSource,
        Meta(
            description="`embedded` starts a Valkey of its own on a unix socket and keeps its data under `state`; "
            "otherwise an [address](operations.md#the-stores-address), as `rediss://store.internal:6379/0`, or where "
            "one is: `{env: NAME}` or `{file: PATH}`."
        ),
    ] = "embedded"
    password: Annotated[
        SecretSource | None,
        Meta(description="Where the password for the store is, if `url` has none; for the user that `url` names."),
    ] = None
    timeout_seconds: Annotated[
        float,
        Meta(
            ge=0.05,
            le=10,
            description="Longest wait for the store while a request is served, in seconds; after it the tenant's "
            "`on_store_failure` says what happens.",
        ),
    ] = 0.5
    encryption_key: Annotated[
        SecretSource | None,
        Meta(
            description="Where the key is that encrypts keys of providers in the store: 32 bytes in base64 or "
            "hexadecimal. Several, with white space between them, replace one another: the first encrypts, all decrypt."
        ),
    ] = None

    @property
    def embedded(self) -> bool:
        """Whether `penstock serve` starts the store itself."""
        return self.url == "embedded"

    @property
    def shown_url(self) -> str:
        """The address without user name and password, or where it is, for people and logs."""
        if isinstance(self.url, SecretSource):
            return self.url.shown
        return self.url if self.embedded else parse_address(self.url).shown


def store_problems(store: Store) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule of the section."""
    yield from source_problems(store.encryption_key, "store.encryption_key")
    yield from source_problems(store.password, "store.password")
    if isinstance(store.url, SecretSource):
        yield from source_problems(store.url, "store.url")
        return
    if store.embedded:
        if store.password is not None:
            yield "store.password", "the embedded store has none: others cannot reach it"
        return
    if store.url.startswith(("env:", "file:")):
        kind, _, rest = store.url.partition(":")
        yield "store.url", f"write it as a mapping: {{{kind}: {rest.strip()}}}"
    elif problem := address_problem(store.url):
        yield "store.url", problem.replace("expected an address", "expected embedded, or an address")
    elif store.password is not None and parse_address(store.url).password is not None:
        yield "store.password", "store.url has a password too; one of them is enough"


def with_absolute_store(store: Store, folder: Path) -> Store:
    """Give the section with its files relative to `folder` made absolute."""
    url = with_absolute_file(store.url, folder) if isinstance(store.url, SecretSource) else store.url
    return msgspec.structs.replace(
        store,
        url=url,
        password=with_absolute_file(store.password, folder),
        encryption_key=with_absolute_file(store.encryption_key, folder),
    )
