"""Where the store has what belongs to a tenant's files and batches, all of a tenant in one slot."""

from typing import Final

#: A hash: the tenants that have or had files.
TENANTS: Final = "penstock:{files}:tenants"


def place(tenant: str, *parts: str) -> str:
    """The key of something of a tenant's; no tenant's name has a brace or a colon."""
    return ":".join((f"penstock:{{files:{tenant}}}", *parts))


def content_name(tenant: str, file_id: str) -> str:
    """What a file's content is called."""
    return f"files/{tenant}/{file_id}"


def work_name(tenant: str, batch_id: str, part: str = "") -> str:
    """What a running batch's own content is called; all of it without `part`."""
    return f"work/{tenant}/{batch_id}/{part}"
