import os
from pathlib import Path

import pytest

from gateway.store.socket_path import SocketPathError, make_socket_folder, socket_path


def test_a_short_state_directory_holds_its_sockets() -> None:
    assert socket_path(Path("/srv/penstock"), "store.sock") == Path("/srv/penstock/store.sock")


def test_a_long_one_gets_a_private_folder_that_every_process_finds(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    path = socket_path(long, "store.sock")
    try:
        assert len(os.fsencode(path)) < 103
        assert path == socket_path(long, "store.sock")
        assert path.parent != socket_path(tmp_path / ("y" * 100), "store.sock").parent
        make_socket_folder(path)
        make_socket_folder(path)
        assert path.parent.stat().st_mode & 0o777 == 0o700
        path.parent.chmod(0o755)
        with pytest.raises(SocketPathError, match="is not a private folder of this user"):
            socket_path(long, "store.sock")
    finally:
        path.parent.rmdir()


def test_a_link_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    path = socket_path(tmp_path / ("x" * 100), "store.sock")
    path.parent.symlink_to(tmp_path)
    try:
        with pytest.raises(SocketPathError):
            make_socket_folder(path)
    finally:
        path.parent.unlink()
