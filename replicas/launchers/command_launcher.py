"""A launcher that runs commands of the operator's own, with JSON in and out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from protos.launch_step import LaunchStep
from replicas.launchers.hook import HookError, run_hook
from replicas.launchers.launcher import ID, LaunchedReplica, LauncherError, ReplicaOrder

T = TypeVar("T")


class _Observed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One replica, as `observe` tells of it."""

    id: str
    model: str
    pool: str
    step: LaunchStep
    since: float
    address: str = ""
    spot: bool = False
    problem: str = ""
    preempted_at: float | None = None


class _Observation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    replicas: list[_Observed]


class _Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `start` and `stop` write."""


class CommandLauncher:
    """Runs `start`, `observe` and `stop`; docs/scaling.md says what each is given and has to write.

    It remembers nothing: which replicas there are is what `observe` says.
    """

    def __init__(
        self,
        start: Sequence[str],
        observe: Sequence[str],
        stop: Sequence[str],
        timeout_seconds: float,
        environment: Mapping[str, str] | None = None,
        is_address: Callable[[str], bool] = bool,
    ) -> None:
        """Commands are programs with their arguments; `environment` None: they have this process's.

        `is_address` says whether a gateway could reach a replica so.
        """
        self._commands = {"start": start, "observe": observe, "stop": stop}
        self._timeout = timeout_seconds
        self._environment = environment
        self._is_address = is_address

    async def start(self, orders: Sequence[ReplicaOrder]) -> None:
        if orders:
            await self._call("start", {"replicas": orders}, _Nothing)

    async def observe(self) -> Sequence[LaunchedReplica]:
        found = (await self._call("observe", {}, _Observation)).replicas
        counts = Counter(one.id for one in found)
        for index, one in enumerate(found):
            if not ID.fullmatch(one.id):
                raise self._wrong(
                    "observe", f"replicas[{index}].id: expected 1 to 63 of a-z, 0-9 and -: {one.id!r:.80}"
                )
            if one.address and not self._is_address(one.address):
                raise self._wrong(
                    "observe",
                    f"replicas[{index}].address: expected grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH: "
                    f"{one.address!r:.80}",
                )
            if counts[one.id] > 1:
                raise self._wrong("observe", f"replicas[{index}].id: {one.id} is there {counts[one.id]} times")
        return [msgspec.convert(one, LaunchedReplica, from_attributes=True) for one in found]

    async def stop(self, ids: Sequence[str], grace_seconds: float) -> None:
        if ids:
            await self._call("stop", {"ids": ids, "grace_seconds": grace_seconds}, _Nothing)

    async def _call(self, name: str, document: object, answer: type[T]) -> T:
        """Run one of the commands. Raises LauncherError."""
        try:
            output = await run_hook(
                self._commands[name], msgspec.json.encode(document), self._environment, self._timeout
            )
        except HookError as error:
            raise self._wrong(name, str(error)) from error
        try:
            return msgspec.json.decode(output.strip() or b"{}", type=answer)
        except msgspec.ValidationError as error:
            text, _, place = str(error).partition(" - at `$.")
            raise self._wrong(name, f"{place.rstrip('`') or 'output'}: {text}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._wrong(name, f"output: not JSON: {error}") from error

    def _wrong(self, name: str, problem: str) -> LauncherError:
        return LauncherError(f"launchers.command.{name}: {self._commands[name][0]}: {problem}")
