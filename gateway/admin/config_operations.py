"""Admin operations on the configuration."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from gateway.admin.operation import Call, NoQuery, Operation
from gateway.config.base import Record
from gateway.reload.messages import Outcome
from protos.errors import Conflict, Overloaded


class ProcessView(Record, frozen=True, kw_only=True):
    """How one process fared with the configuration."""

    role: Literal["worker", "admin", "controller"]
    pid: int
    problem: Annotated[str, Meta(description="Why it cannot run it; empty: it can.")]
    seconds: Annotated[float, Meta(description="How long it took to prepare.")]


class ReloadView(Record, frozen=True, kw_only=True):
    """The answer to a reload: whether the file was taken, by which processes, and what it changes, without secrets."""

    result: Annotated[
        Literal["taken", "unchanged", "refused"],
        Meta(description="`taken`: all processes serve by it. `refused`: all serve on by the one before."),
    ]
    digest: Annotated[str, Meta(description="Of the configuration in use now.")]
    at: Annotated[float, Meta(description="When, in seconds since 1970.")]
    problem: Annotated[str, Meta(description="Why it was refused: file, field and reason.")]
    changes: Annotated[list[str], Meta(description="What differs from the one before, a line each: `PATH: A -> B`.")]
    restart: Annotated[list[str], Meta(description="Those of them that need a restart.")]
    rebuilt: Annotated[list[str], Meta(description="Models with a fleet and a queue of their own from then on.")]
    processes: Annotated[list[ProcessView], Meta(description="The processes that were asked to prepare it.")]


async def reload_config(call: Call[NoQuery, None]) -> ReloadView:
    """Read the configuration file again; all processes take it, or none."""
    if call.service.reload is None:
        raise Conflict("This process was not started by `penstock serve`: there are no workers that it could tell.")
    return _view(await call.service.reload())


def _view(outcome: Outcome) -> ReloadView:
    result = outcome.result
    assert result != "started", "it is the outcome of a reload"
    return ReloadView(
        result=result,
        digest=outcome.digest,
        at=outcome.at,
        problem=outcome.problem,
        changes=list(outcome.changes),
        restart=list(outcome.restart),
        rebuilt=list(outcome.rebuilt),
        processes=[
            ProcessView(role=one.role, pid=one.pid, problem=one.problem, seconds=one.seconds)
            for one in outcome.processes
        ],
    )


OPERATIONS: Final = (
    Operation(
        "POST",
        "/admin/config/reload",
        "reloadConfig",
        "Read the configuration file again, and serve by it if that is possible",
        reload_config,
        ReloadView,
        errors=(Conflict, Overloaded),
    ),
)
