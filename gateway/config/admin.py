"""The section `admin`: the address of the admin API."""

from typing import Annotated

from msgspec import Meta

from gateway.config.base import Record
from gateway.config.network.hosts import local_url
from gateway.config.secrets import SecretSource


class Admin(Record, frozen=True, kw_only=True):
    """The admin API. Its key is the environment's `PENSTOCK_ADMIN_KEY`, or else the file `admin.key` in `state`."""

    enabled: Annotated[bool, Meta(description="Whether `penstock serve` runs it.")] = True
    host: Annotated[
        str, Meta(min_length=1, max_length=255, description="Address or name to listen on; keep it away from clients.")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="TCP port.")] = 8081
    scrape_key: Annotated[
        SecretSource | None,
        Meta(
            description="A key that may read `/metrics` and nothing else, for Prometheus: 16 to 512 visible ASCII "
            "characters, not those of the admin key. Unset: only the admin key may."
        ),
    ] = None

    @property
    def url(self) -> str:
        """The admin API's URL as this machine reaches it."""
        return local_url("http", self.host, self.port)
