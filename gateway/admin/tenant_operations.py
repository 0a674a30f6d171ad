"""Admin operations on tenants."""

import hashlib
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.admin.admin_paging import Page, PageQuery, page_of
from gateway.admin.merge_patch import merge_patch
from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record
from gateway.config.tenants import Tenant
from gateway.tenancy.tenants.inputs import record_of
from gateway.tenancy.tenants.tenant_registry import Source, TenantEntry
from protos.errors import Conflict, InvalidRequest, PreconditionFailed, TenantNotFound


class TenantView(Tenant, frozen=True, kw_only=True):
    """A tenant and the source of its record."""

    object: Literal["tenant"] = "tenant"
    source: Annotated[
        Source,
        Meta(description="`file`: the configuration; `api`: the store; `built-in`: the `default` that none describes."),
    ]
    shadowed: Annotated[bool, Meta(description="Whether the store has a record too, which the file's keeps from use.")]


class Deleted(Record, frozen=True, kw_only=True):
    """A tenant that was deleted."""

    object: Literal["tenant"] = "tenant"
    name: str
    deleted: Literal[True] = True


async def list_tenants(call: Call[PageQuery, None]) -> Page[TenantView]:
    """List tenants, by name."""
    entries = await call.service.registry.tenants()
    return page_of([_view(entry) for entry in entries], call.query, lambda view: view.name, str)


async def create_tenant(call: Call[NoQuery, Tenant]) -> TenantView:
    """Create a tenant."""
    return _view(await call.service.registry.create_tenant(call.body, call.actor))


async def get_tenant(call: Call[NoQuery, None]) -> TenantView:
    """Return one tenant."""
    return _view(await call.service.registry.tenant(call.path["name"]))


async def replace_tenant(call: Call[NoQuery, Tenant]) -> TenantView:
    """Replace a tenant's record."""
    return await _edit(call, lambda _: call.body)


async def patch_tenant(call: Call[NoQuery, dict[str, Any]]) -> TenantView:
    """Change some fields of a tenant's record."""
    return await _edit(call, lambda old: record_of(merge_patch(msgspec.to_builtins(old), call.body), Tenant))


async def delete_tenant(call: Call[NoQuery, None]) -> Deleted:
    """Delete a tenant."""
    await call.service.registry.delete_tenant(call.path["name"], call.actor)
    return Deleted(name=call.path["name"])


async def _edit(call: Call[NoQuery, Any], edit: Any) -> TenantView:
    def checked(old: Tenant) -> Tenant:
        if call.if_match is not None and not call.if_match & {"*", etag(old)}:
            raise PreconditionFailed("The tenant has changed since it was read.", param="if-match")
        changed: Tenant = edit(old)
        return changed

    return _view(await call.service.registry.edit_tenant(call.path["name"], checked, call.actor))


def etag(tenant: Tenant) -> str:
    """Return a record's entity tag (RFC 9110, 8.8.3), in its quotes."""
    record = {name: getattr(tenant, name) for name in Tenant.__struct_fields__}
    return f'"{hashlib.sha256(msgspec.json.encode(record, order="deterministic")).hexdigest()[:32]}"'


def _view(entry: TenantEntry) -> TenantView:
    fields = {name: getattr(entry.tenant, name) for name in Tenant.__struct_fields__}
    return TenantView(**fields, source=entry.source, shadowed=entry.shadowed)


OPERATIONS: Final = (
    Operation(
        "GET", "/admin/tenants", "listTenants", "All tenants, by name", list_tenants, Page[TenantView], PageQuery
    ),
    Operation(
        "POST",
        "/admin/tenants",
        "createTenant",
        "Add a tenant",
        create_tenant,
        TenantView,
        body=Tenant,
        status=201,
        errors=(InvalidRequest, Conflict),
        tagged=True,
    ),
    Operation(
        "GET",
        "/admin/tenants/{name}",
        "getTenant",
        "One tenant",
        get_tenant,
        TenantView,
        errors=(TenantNotFound,),
        tagged=True,
    ),
    Operation(
        "PUT",
        "/admin/tenants/{name}",
        "replaceTenant",
        "Put a whole new record in the place of a tenant's",
        replace_tenant,
        TenantView,
        body=Tenant,
        errors=(InvalidRequest, TenantNotFound, Conflict, PreconditionFailed),
        conditional=True,
        tagged=True,
    ),
    Operation(
        "PATCH",
        "/admin/tenants/{name}",
        "patchTenant",
        "Change some values of a tenant's record: a JSON merge patch (RFC 7396), in which null restores a default",
        patch_tenant,
        TenantView,
        body=dict[str, Any],
        errors=(InvalidRequest, TenantNotFound, Conflict, PreconditionFailed),
        conditional=True,
        tagged=True,
    ),
    Operation(
        "DELETE",
        "/admin/tenants/{name}",
        "deleteTenant",
        "Remove a tenant that has no active keys",
        delete_tenant,
        Deleted,
        errors=(TenantNotFound, Conflict),
    ),
)
