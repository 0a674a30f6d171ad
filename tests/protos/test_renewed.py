import os
import threading
from pathlib import Path

import pytest

from protos.renewed import Renewed


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def number_in(path: Path) -> int:
    return int(path.read_text())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "number"
    path.write_text("1")
    return path


def test_a_changed_file_is_read_anew_and_looked_at_once_a_second(file: Path) -> None:
    clock, reads = Clock(), []

    def make() -> int:
        reads.append(1)
        return number_in(file)

    renewed = Renewed([file], make, clock=clock)
    file.write_text("22")
    clock.now = 0.9
    assert renewed.get() == 1
    clock.now = 1.0
    assert renewed.get() == 22
    clock.now = 5.0
    assert renewed.get() == 22
    assert len(reads) == 2


def test_what_cannot_be_read_leaves_the_last_value_and_is_told_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = Renewed([file], lambda: number_in(file), check_seconds=0.0)
    file.write_text("none")
    assert [renewed.get() for _ in range(3)] == [1, 1, 1]
    file.unlink()
    assert [renewed.get() for _ in range(3)] == [1, 1, 1]
    assert len(caplog.records) == 2
    file.write_text("333")
    assert renewed.get() == 333


def test_a_link_is_followed_as_kubernetes_swaps_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "number").write_text("1" if name == "a" else "2")
    (tmp_path / "data").symlink_to("a")
    renewed = Renewed(
        [tmp_path / "data" / "number"], lambda: number_in(tmp_path / "data" / "number"), check_seconds=0.0
    )
    assert renewed.get() == 1
    (tmp_path / "fresh").symlink_to("b")
    os.replace(tmp_path / "fresh", tmp_path / "data")
    assert renewed.get() == 2


def test_what_cannot_be_made_at_first_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Renewed([tmp_path / "none"], lambda: number_in(tmp_path / "none"))


def test_threads_make_it_once_for_a_change(file: Path) -> None:
    reads = []

    def make() -> int:
        reads.append(1)
        return number_in(file)

    renewed = Renewed([file], make, check_seconds=0.0)
    file.write_text("22")
    threads = [threading.Thread(target=renewed.get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (renewed.get(), len(reads)) == (22, 2)
