"""Admin operations on API keys."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.admin.admin_paging import Page, PageQuery, page_of
from gateway.admin.merge_patch import merge_patch
from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record
from gateway.tenancy.auth.key_records import ApiKey, KeyChange, KeyRequest
from gateway.tenancy.tenants.inputs import record_of
from protos.errors import Conflict, InvalidRequest, KeyNotFound, TenantNotFound

_SETTINGS: Final = KeyChange.__struct_fields__


class KeyView(ApiKey, frozen=True, kw_only=True):
    """An API key as the admin API shows it, without its secret."""

    object: Literal["key"] = "key"
    state: Annotated[Literal["active", "expired", "revoked"], Meta(description="By the store's clock.")]


class NewKey(KeyView, frozen=True, kw_only=True):
    """A newly created key, with its secret."""

    key: Annotated[str, Meta(description="The secret. Only its hash is stored: it cannot be shown again.")]


class KeysQuery(PageQuery, frozen=True, kw_only=True):
    """Query parameters that select keys."""

    tenant: Annotated[Annotated[str, Meta(min_length=1)] | None, Meta(description="Only the keys of this tenant.")] = (
        None
    )


class Rotation(Record, frozen=True, kw_only=True):
    """The body of a rotation: for how long the old secret stays valid."""

    grace_seconds: Annotated[
        float, Meta(ge=0, description="How long the old secret works beside the new one, in seconds; up to 30 days.")
    ]


async def list_keys(call: Call[KeysQuery, None]) -> Page[KeyView]:
    """List keys, the oldest first."""
    registry = call.service.registry
    keys = await registry.keys(call.query.tenant)
    if not keys and call.query.tenant is not None:
        await _require_tenant(call, call.query.tenant)
    now = await call.service.store.now()
    return page_of(
        [_view(key, now) for key in keys], call.query, lambda view: (view.created_at, view.key_id), tuple[float, str]
    )


async def create_key(call: Call[NoQuery, KeyRequest]) -> NewKey:
    """Create a key."""
    key, secret = await call.service.registry.create_key(call.body, call.actor)
    return _new(key, secret)


async def get_key(call: Call[NoQuery, None]) -> KeyView:
    """Return one key."""
    return await _current_view(call, await call.service.registry.key(call.path["id"]))


async def patch_key(call: Call[NoQuery, dict[str, Any]]) -> KeyView:
    """Change some settings of a key."""

    def change(key: ApiKey) -> KeyChange:
        if "tenant" in call.body:
            raise InvalidRequest("tenant: a key keeps its tenant", param="tenant")
        settings = msgspec.to_builtins({name: getattr(key, name) for name in _SETTINGS})
        wanted = record_of(merge_patch(settings, call.body), KeyRequest)
        return KeyChange(**{name: getattr(wanted, name) for name in _SETTINGS})

    return await _current_view(call, await call.service.registry.edit_key(call.path["id"], change, call.actor))


async def rotate_key(call: Call[NoQuery, Rotation]) -> NewKey:
    """Replace a key's secret by a new one."""
    key, secret = await call.service.registry.rotate_key(call.path["id"], call.body.grace_seconds, call.actor)
    return _new(key, secret)


async def revoke_key(call: Call[NoQuery, None]) -> KeyView:
    """Revoke a key."""
    return await _current_view(call, await call.service.registry.revoke_key(call.path["id"], call.actor))


async def _require_tenant(call: Call[Any, Any], name: str) -> None:
    try:
        await call.service.registry.tenant(name)
    except TenantNotFound as error:
        error.param = "tenant"
        raise


async def _current_view(call: Call[Any, Any], key: ApiKey) -> KeyView:
    return _view(key, await call.service.store.now())


def _view(key: ApiKey, now: float) -> KeyView:
    state: Literal["active", "expired", "revoked"] = "active"
    if not key.active(now):
        state = "revoked" if key.revoked else "expired"
    return KeyView(**_fields(key), state=state)


def _new(key: ApiKey, secret: str) -> NewKey:
    return NewKey(**_fields(key), state="active", key=secret)


def _fields(key: ApiKey) -> dict[str, Any]:
    return {name: getattr(key, name) for name in ApiKey.__struct_fields__}


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/keys",
        "listKeys",
        "All keys, the oldest first, revoked and expired ones included",
        list_keys,
        Page[KeyView],
        KeysQuery,
        errors=(TenantNotFound,),
    ),
    Operation(
        "POST",
        "/admin/keys",
        "createKey",
        "Make a key; the answer alone has its secret",
        create_key,
        NewKey,
        body=KeyRequest,
        status=201,
        errors=(InvalidRequest, Conflict),
    ),
    Operation("GET", "/admin/keys/{id}", "getKey", "One key", get_key, KeyView, errors=(KeyNotFound,)),
    Operation(
        "PATCH",
        "/admin/keys/{id}",
        "patchKey",
        "Change a key's settings: a JSON merge patch (RFC 7396), in which null restores a default",
        patch_key,
        KeyView,
        body=dict[str, Any],
        errors=(InvalidRequest, KeyNotFound, Conflict),
    ),
    Operation(
        "POST",
        "/admin/keys/{id}/rotate",
        "rotateKey",
        "Make a key with a new secret and the settings of this one, which ends after a time of grace",
        rotate_key,
        NewKey,
        body=Rotation,
        status=201,
        errors=(InvalidRequest, KeyNotFound, Conflict),
    ),
    Operation(
        "POST",
        "/admin/keys/{id}/revoke",
        "revokeKey",
        "Take a key back, for good; every worker refuses it within a second",
        revoke_key,
        KeyView,
        errors=(KeyNotFound,),
    ),
)
