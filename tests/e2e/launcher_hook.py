"""An operator's commands for `launcher: command`: `launcher_hook.py CONFIG start|observe|stop`.

They start processes of this machine as the local launcher does. While the file `hang` lies beside the configuration
each start takes a minute; what it started is there nevertheless. What runs on preemptible capacity is taken away at the
time that the file `preempted` has, in seconds since the epoch.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import msgspec

from gateway.config.load import load_config
from gateway.config.secret_variables import LateSecrets
from gateway.scaling.build_launchers import build_launchers
from replicas.launchers.launcher import ReplicaOrder

HANG_SECONDS = 60.0
#: What `observe` tells of a replica, as docs/scaling.md has it.
TOLD = ("id", "model", "pool", "step", "since", "address", "spot", "problem", "preempted_at")


def main(path: Path, action: str) -> None:
    launcher = build_launchers(load_config(path), LateSecrets())["local"]
    given = json.loads(sys.stdin.read())
    found: dict[str, object] = {}
    if action == "start":
        asyncio.run(launcher.start(msgspec.convert(given["replicas"], list[ReplicaOrder])))
        until = time.monotonic() + HANG_SECONDS
        while (path.parent / "hang").exists() and time.monotonic() < until:
            time.sleep(0.1)
    elif action == "stop":
        asyncio.run(launcher.stop(given["ids"], given["grace_seconds"]))
    else:
        shown = [{name: getattr(one, name) for name in TOLD} for one in asyncio.run(launcher.observe())]
        notice = path.parent / "preempted"
        taken = float(notice.read_text()) if notice.exists() else None
        found = {"replicas": [one | {"preempted_at": taken} if one["spot"] else one for one in shown]}
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
