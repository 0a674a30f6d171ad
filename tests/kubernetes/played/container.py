"""A container: its process, its probes, and its status as the API has it."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.kubernetes.api import Object
from tests.kubernetes.network import PodNetwork
from tests.kubernetes.played import sandbox
from tests.kubernetes.played.fields import command_of
from tests.kubernetes.played.images import Image, homes
from tests.kubernetes.played.probes import Prober, Watched, hook, probed


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Place:
    """What a pod gives to its containers."""

    folder: Path
    ip: str
    network: PodNetwork
    hostname: str
    files: dict[str, str]
    #: Volume -> its folder.
    volumes: dict[str, Path]
    security: Object
    grace_seconds: float
    prober: Prober
    #: Tells the pod that a status has changed.
    changed: Callable[[], None]


@dataclass
class Container:
    """One container of a pod over all its lives."""

    spec: Object
    image: Image | None
    place: Place
    state: Object = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last_state: Object = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    started: bool = False
    _process: asyncio.subprocess.Process | None = None
    _env: dict[str, str] = field(default_factory=dict)
    _probes: "list[asyncio.Task[None]]" = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def wait(self, reason: str, message: str = "") -> None:
        """Say why it does not run."""
        self.state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        self.place.changed()

    async def live(self, env: dict[str, str]) -> int:
        """Run it once; the answer is its exit code."""
        assert self.image is not None
        self._env = env
        process = await self._begin(env)
        begun = now()
        self.state = {"running": {"startedAt": begun}}
        self.place.changed()
        if action := self.spec.get("lifecycle", {}).get("postStart"):
            await hook(action, self._ask, 60.0)
        self._watch()
        try:
            code = await process.wait()
        finally:
            if not self.running:
                self._end_probes()
                self.ready = self.started = False
        reason = "Completed" if code == 0 else "Error"
        self.state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": begun, "finishedAt": now()}}
        self.place.changed()
        return code

    async def _begin(self, env: dict[str, str]) -> asyncio.subprocess.Process:
        """Start its process, and wait until its own command runs."""
        reading, writing = os.pipe()
        spec = str(self._write_spec(env))
        with (self.place.folder / f"{self.name}.log").open("ab") as log:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", sandbox.__file__, spec, str(writing)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(writing,),
            )
        os.close(writing)
        reader = asyncio.StreamReader()
        with os.fdopen(reading, "rb") as pipe:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), pipe
            )
            await reader.read()
            transport.close()
        return process

    def restarting(self) -> None:
        """It is to run again: what it was goes into its last state."""
        self.last_state, self.restarts = self.state, self.restarts + 1

    async def end(self, grace_seconds: float) -> None:
        """Run its hook, ask it to end, and end it by force after its grace."""
        if not self.running:
            return
        until = time.monotonic() + grace_seconds
        if (action := self.spec.get("lifecycle", {}).get("preStop")) and grace_seconds > 0:
            await hook(action, self._ask, grace_seconds)
        # Its hook may have taken all of its grace; the kubelet gives two seconds then.
        await self.terminate(max(2.0, until - time.monotonic()) if grace_seconds > 0 else 0.0)

    async def terminate(self, seconds: float) -> None:
        """SIGTERM, and SIGKILL after these seconds."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGUSR1)
            await process.wait()

    def terminated(self) -> None:
        """Put its end into its status, where nobody waited for it."""
        self._end_probes()
        self.ready = self.started = False
        if "running" in self.state and self._process is not None:
            code = self._process.returncode or 0
            begun = self.state["running"]["startedAt"]
            reason = "Completed" if code == 0 else "Error"
            self.state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": begun, "finishedAt": now()}}

    def status(self) -> Object:
        identity = f"process://{self.place.ip}/{self.name}/{self.restarts}"
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": self.spec["image"] if self.image else "",
            "containerID": identity if "waiting" not in self.state else "",
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
        }

    def end_liveness(self) -> None:
        """From now on nothing but its readiness is asked for."""
        for task in self._probes:
            if task.get_name() != "readinessProbe":
                task.cancel()

    def _write_spec(self, env: dict[str, str]) -> Path:
        assert self.image is not None
        security = {**self.place.security, **self.spec.get("securityContext", {})}
        uid = security.get("runAsUser", self.image.uid)
        group = security.get("fsGroup")
        mounts = [{"source": source, "target": target, "readonly": True} for source, target in self.image.mounts]
        for mount in sorted(self.spec.get("volumeMounts", []), key=lambda one: str(one["mountPath"])):
            source = self.place.volumes[mount["name"]]
            if sub := mount.get("subPath"):
                source = source / sub
            readonly = bool(mount.get("readOnly"))
            mounts.append({"source": str(source), "target": mount["mountPath"], "readonly": readonly})
        spec = {
            "folder": str(self.place.folder / f"{self.name}.root"),
            "pid": str(self.place.folder / f"{self.name}.pid"),
            "hostname": self.place.hostname,
            "network": self.place.network.pid,
            "command": command_of(self.spec, self.image, env),
            "env": env,
            "cwd": self.spec.get("workingDir") or self.image.cwd,
            "uid": uid,
            "gid": security.get("runAsGroup", 0),
            "groups": [group] if group is not None else [],
            "readonly": bool(security.get("readOnlyRootFilesystem")),
            "files": {**self.image.files, **self.place.files},
            "opened": homes(),
            "owned": {self.image.cwd: self.image.uid} if self.image.cwd != "/" else {},
            "mounts": mounts,
        }
        path = self.place.folder / f"{self.name}.json"
        path.write_text(json.dumps(spec))
        return path

    def _watch(self) -> None:
        """Begin to probe; without a startup probe it has started, and without a readiness probe it is ready then."""
        startup = self.spec.get("startupProbe")
        if startup is None:
            self._has_started()
            return

        def changed(passes: bool) -> None:
            if passes:
                self._has_started()
            else:
                self._kill()

        self._probe("startupProbe", Watched(startup, None), changed)

    def _has_started(self) -> None:
        for task in self._probes:
            task.cancel()
        self._probes.clear()
        self.started = True
        if liveness := self.spec.get("livenessProbe"):
            self._probe("livenessProbe", Watched(liveness, True), lambda _: self._kill())
        if readiness := self.spec.get("readinessProbe"):
            self._probe("readinessProbe", Watched(readiness, False), self._is_ready)
        else:
            self.ready = True
        self.place.changed()

    def _is_ready(self, ready: bool) -> None:
        self.ready = ready
        self.place.changed()

    def _kill(self) -> None:
        """A probe says that it must begin anew; whoever waits for its process restarts it."""
        self._spawn("kill", self.terminate(self.place.grace_seconds))

    def _probe(self, name: str, watched: Watched, changed: Callable[[bool], None]) -> None:
        self._spawn(name, probed(watched, self._ask, changed))

    def _spawn(self, name: str, work: "Coroutine[Any, Any, None]") -> None:
        self._probes.append(asyncio.create_task(work, name=name))

    def _end_probes(self) -> None:
        for task in self._probes:
            task.cancel()
        self._probes.clear()

    async def _ask(self, probe: Object) -> bool:
        return await self.place.prober.passes(probe, self.place.ip, self.spec.get("ports", []), self._execute)

    async def _execute(self, command: list[str], seconds: float) -> int:
        """Run a command in the container, with its environment and as its user."""
        spec = json.loads((self.place.folder / f"{self.name}.json").read_text())
        pid = (self.place.folder / f"{self.name}.pid").read_text()
        user = ["--setuid", str(spec["uid"]), "--setgid", str(spec["gid"])]
        inside = ["/usr/bin/nsenter", "--target", pid, "--mount", "--uts", "--net", "--pid", "--root"]
        inside += [f"--wdns={spec['cwd']}", *user, "--"]
        with (self.place.folder / f"{self.name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *inside, *command, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
