"""A script, `sandbox.py SPEC.json PIPE`: runs a container's process, with a root and host name of its own.

Its network is its pod's. It waits for the process and ends as it does; SIGTERM is handed on, and SIGUSR1 kills it
with all that it has started. The pipe is closed once the command runs. It imports nothing of the project.
"""

import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWPID, _CLONE_NEWNET = 0x00020000, 0x04000000, 0x20000000, 0x40000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


def main(spec_file: str, pipe: int) -> None:
    """Set up what the spec says, and run its command.

    Raises:
        SystemExit: The command has ended, with its code; 128 and more for a signal, 127 where it is not to be found.
    """
    spec = json.loads(Path(spec_file).read_text())
    with Path(f"/proc/{spec['network']}/ns/net").open("rb") as network:
        if _LIBC.setns(network.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    if _LIBC.unshare(_CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWPID):
        raise OSError(ctypes.get_errno(), "unshare")
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1))
    child = os.fork()
    if child == 0:
        os.set_inheritable(pipe, False)
        _become(spec)
    os.close(pipe)
    Path(spec["pid"]).write_text(str(child))
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.signal(signal.SIGUSR1, lambda *_: os.kill(child, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGUSR1))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    raise SystemExit(code if code >= 0 else 128 - code)


def _become(spec: dict[str, Any]) -> None:
    """Exec the command, as the first process of its own."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    socket.sethostname(spec["hostname"])
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    root = _root(Path(spec["folder"]), spec)
    os.chroot(root)
    os.chdir(spec["cwd"])
    os.setgroups(spec["groups"])
    os.setgid(spec["gid"])
    os.setuid(spec["uid"])
    # Whoever changes its user loses this, so it comes last.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGUSR1))
    try:
        os.execvpe(spec["command"][0], spec["command"], spec["env"])
    except OSError as error:
        print(f"exec: {spec['command'][0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def _root(folder: Path, spec: dict[str, Any]) -> Path:
    """The machine's files, with what is written on top of them kept in memory, and the container's mounts."""
    folder.mkdir(exist_ok=True)
    _mount("tmpfs", str(folder), "tmpfs")
    upper, work, root = (folder / name for name in ("upper", "work", "root"))
    for one in (upper, work, root):
        one.mkdir()
    _mount("overlay", str(root), "overlay", 0, f"lowerdir=/,upperdir={upper},workdir={work}")
    for name in ("dev", "sys"):
        _mount(f"/{name}", str(root / name), "", _MS_BIND | _MS_REC)
    _mount("proc", str(root / "proc"), "proc")
    for path, text in spec["files"].items():
        target = _inside(root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_text(text)
        target.chmod(0o755)
    for path, uid in spec["owned"].items():
        os.chown(_inside(root, path), uid, -1)
    # Where Python lies under a home that only its owner may enter.
    for home in spec["opened"]:
        _inside(root, home).chmod(0o755)
    for mount in spec["mounts"]:
        target = _inside(root, mount["target"])
        if Path(mount["source"]).is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        _mount(mount["source"], str(target), "", _MS_BIND)
        if mount["readonly"]:
            _mount("none", str(target), "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    if spec["readonly"]:
        _mount("none", str(root), "", _MS_REMOUNT | _MS_RDONLY)
    return root


def _inside(root: Path, path: str) -> Path:
    """A path below the root; a link such as /var/run leads to where it does for the container, not to the machine's."""
    found, parts = root, [part for part in Path(path).parts if part != "/"]
    for _ in range(100):
        if not parts:
            return found
        step = found / parts.pop(0)
        if step.is_symlink():
            target = step.readlink()
            found = root if target.is_absolute() else found
            parts[:0] = [part for part in target.parts if part != "/"]
        elif step.name == "..":
            found = found.parent
        else:
            found = step
    raise OSError(f"{path}: a ring of links")


def _mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    if _LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()):
        error = ctypes.get_errno()
        raise OSError(error, f"mount {source}: {os.strerror(error)}", target)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
