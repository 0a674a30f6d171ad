"""The section `alerts`: the webhook for budget alerts."""

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from gateway.config.base import Record


class Alerts(Record, frozen=True, kw_only=True):
    """Where it is announced that a tenant has spent a part of its budget; the log and the metrics always say it."""

    webhook: Annotated[
        str | None,
        Meta(description="Address, `http://` or `https://`, that gets each announcement as a JSON POST; unset: none."),
    ] = None


def alerts_problems(alerts: Alerts) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for a webhook that is no HTTP address."""
    yield from webhook_problems(alerts.webhook, "alerts.webhook")


def webhook_problems(webhook: str | None, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for a webhook, at path `where`, that is no HTTP address."""
    if webhook is None:
        return
    # The value is not echoed: it may hold a secret.
    try:
        parts = urlsplit(webhook)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not webhook.isprintable() or " " in webhook:
        yield where, "expected an address that starts with http:// or https:// and names a host"
