"""A cluster to try things in by hand: `python -m tests.kubernetes.up [NODES]`, until it is interrupted.

It prints the path of a kubeconfig once the cluster serves. Nodes (2) have 8 GPUs each.
"""

import signal
import sys
import tempfile
from pathlib import Path

from tests.kubernetes.control_plane import control_plane
from tests.kubernetes.network import CannotRoute
from tests.kubernetes.nodes import Node, played
from tests.kubernetes.programs import CannotBuild, folder


def main(nodes: int) -> None:
    """Start it, say where it is, and wait for the end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="penstock-kubernetes-", ignore_cleanup_errors=True) as name:
        try:
            with control_plane(Path(name) / "cluster") as plane, played(plane) as beside:
                beside.add(*(Node.with_gpus(f"node-{number}", 8) for number in range(nodes)))
                print(f"export KUBECONFIG={plane.kubeconfig} PATH={folder()}:$PATH", flush=True)
                signal.pause()
        except KeyboardInterrupt:
            pass
        except (CannotBuild, CannotRoute, RuntimeError) as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
