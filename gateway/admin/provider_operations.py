"""Admin operations on stored provider keys; no answer contains a key."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from gateway.admin.admin_paging import Page, PageQuery, page_of
from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record
from gateway.tenancy.providers.vault import ProviderKey
from protos.errors import Conflict, InvalidRequest, ProviderKeyNotFound


class ProviderKeyView(ProviderKey, frozen=True, kw_only=True):
    """A stored provider key, without the secret."""

    object: Literal["provider_key"] = "provider_key"


class ProviderKeyRequest(Record, frozen=True, kw_only=True):
    """A provider key to store."""

    key: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="The provider's key: visible ASCII characters without spaces. No answer ever has it.",
            extra_json_schema={"writeOnly": True},
        ),
    ]


class DeletedKey(Record, frozen=True, kw_only=True):
    """A provider key that was deleted."""

    name: str
    deleted: Literal[True] = True


async def list_provider_keys(call: Call[PageQuery, None]) -> Page[ProviderKeyView]:
    """List the stored provider keys, by name."""
    keys = await call.service.providers.keys()
    return page_of([_view(key) for key in keys], call.query, lambda view: view.name, str)


async def set_provider_key(call: Call[NoQuery, ProviderKeyRequest]) -> ProviderKeyView:
    """Store a provider key."""
    return _view(await call.service.providers.set_key(call.path["name"], call.body.key, call.actor))


async def delete_provider_key(call: Call[NoQuery, None]) -> DeletedKey:
    """Delete a provider key."""
    await call.service.providers.delete_key(call.path["name"], call.actor)
    return DeletedKey(name=call.path["name"])


def _view(key: ProviderKey) -> ProviderKeyView:
    return ProviderKeyView(**{name: getattr(key, name) for name in ProviderKey.__struct_fields__})


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/providers",
        "listProviderKeys",
        "The stored keys of providers, by name; never the keys themselves",
        list_provider_keys,
        Page[ProviderKeyView],
        PageQuery,
    ),
    Operation(
        "PUT",
        "/admin/providers/{name}",
        "setProviderKey",
        "Store a provider's key, encrypted; every worker uses it within 2 seconds",
        set_provider_key,
        ProviderKeyView,
        body=ProviderKeyRequest,
        errors=(InvalidRequest, Conflict),
        secret=True,
    ),
    Operation(
        "DELETE",
        "/admin/providers/{name}",
        "deleteProviderKey",
        "Remove a provider's key",
        delete_provider_key,
        DeletedKey,
        errors=(ProviderKeyNotFound, Conflict),
    ),
)
