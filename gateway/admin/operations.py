"""The table of all admin operations, from which routes and documentation are made."""

from typing import Any, Final, Literal

from gateway.admin import (
    audit_operations as audit,
)
from gateway.admin import (
    config_operations as config,
)
from gateway.admin import (
    drift_operations as drift,
)
from gateway.admin import (
    key_operations as keys,
)
from gateway.admin import (
    limit_operations as limits,
)
from gateway.admin import (
    provider_operations as providers,
)
from gateway.admin import (
    replica_operations as replicas,
)
from gateway.admin import (
    reshape_operations as shapes,
)
from gateway.admin import (
    rollout_operations as rollouts,
)
from gateway.admin import (
    rollout_series_operation as rollout_series,
)
from gateway.admin import (
    scaling_operations as scaling,
)
from gateway.admin import (
    tenant_operations as tenants,
)
from gateway.admin import (
    usage_operations as usage,
)
from gateway.admin.live import live_operation as live
from gateway.admin.metrics import metrics_page as metrics
from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record


class Health(Record, frozen=True, kw_only=True):
    """The answer of the liveness probe."""

    status: Literal["ok"] = "ok"


async def healthz(call: Call[NoQuery, None]) -> Health:
    """Report that the process runs, without asking the store."""
    return Health()


async def get_openapi(call: Call[NoQuery, None]) -> dict[str, Any]:
    """Return this API's OpenAPI document."""
    # Made on request only: its schemas are costly, and it needs the table below.
    from gateway.admin.admin_openapi import document

    return document(OPERATIONS)


OPERATIONS: Final[tuple[Operation, ...]] = (
    *tenants.OPERATIONS,
    *keys.OPERATIONS,
    *limits.OPERATIONS,
    *usage.OPERATIONS,
    *replicas.OPERATIONS,
    *scaling.OPERATIONS,
    *drift.OPERATIONS,
    *rollouts.OPERATIONS,
    *rollout_series.OPERATIONS,
    *shapes.OPERATIONS,
    *providers.OPERATIONS,
    *audit.OPERATIONS,
    *config.OPERATIONS,
    *metrics.OPERATIONS,
    *live.OPERATIONS,
    Operation("GET", "/admin/openapi.json", "getOpenapi", "This document", get_openapi, dict[str, Any]),
    Operation("GET", "/healthz", "healthz", "Whether the process answers", healthz, Health, public=True),
)
