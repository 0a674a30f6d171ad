"""The admin operation that lists the audit trail."""

from typing import Final, Literal

from gateway.admin.admin_paging import Page, PageQuery, cursor, read_cursor
from gateway.admin.operation import Call, Operation
from gateway.tenancy.tenants.audit_trail import AuditEntry
from protos.errors import InvalidRequest


class AuditView(AuditEntry, frozen=True, kw_only=True):
    """One entry of the audit trail."""

    object: Literal["audit_entry"] = "audit_entry"


async def list_audit(call: Call[PageQuery, None]) -> Page[AuditView]:
    """List changes, the newest first."""
    registry, limit = call.service.registry, call.query.limit
    before = None if call.query.after is None else read_cursor(call.query.after, str)
    try:
        entries = await registry.audit(before=before, limit=limit)
    except InvalidRequest:
        raise InvalidRequest("after: expected the `next` of a page of this list", param="after") from None
    # The page may be full because the trail ends there.
    more = len(entries) == limit and bool(await registry.audit(before=entries[-1].id, limit=1))
    views = [AuditView(**{name: getattr(entry, name) for name in AuditEntry.__struct_fields__}) for entry in entries]
    return Page(data=views, has_more=more, next=cursor(entries[-1].id) if more else None)


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/audit",
        "listAudit",
        "Every change of a tenant, a key or what is drained, the newest first; the last 20,000 or so are kept",
        list_audit,
        Page[AuditView],
        PageQuery,
        errors=(InvalidRequest,),
    ),
)
