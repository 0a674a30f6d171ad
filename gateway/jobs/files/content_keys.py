"""Store keys and content names of a tenant's files and batches; one tenant's keys share a slot."""

from typing import Final

#: A hash: the tenants that have or had files.
TENANTS: Final = "penstock:{files}:tenants"


def tenant_key(tenant: str, *parts: str) -> str:
    """Make a key of a tenant's; no tenant's name has a brace or a colon."""
    return ":".join((f"penstock:{{files:{tenant}}}", *parts))


def content_name(tenant: str, file_id: str) -> str:
    """Make the name of a file's content."""
    return f"files/{tenant}/{file_id}"


def work_name(tenant: str, batch_id: str, part: str = "") -> str:
    """Make the name of a running batch's content; without `part` the prefix of all of it."""
    return f"work/{tenant}/{batch_id}/{part}"
