"""Where the admin key comes from."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from gateway.admin.admin_key import PREFIX, VARIABLE, AdminKeyError, admin_key, admin_key_file, matches
from gateway.config.settings import Config
from tests.gateway.admin.bench import config_of


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return msgspec.structs.replace(config_of(), state=str(tmp_path / "state"))


def test_the_first_start_makes_one(config: Config) -> None:
    key = admin_key(config)
    path = admin_key_file(config)
    assert key.startswith(PREFIX)
    assert len(key) == len(PREFIX) + 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_text() == key + "\n"
    assert admin_key(config) == key
    assert [entry.name for entry in path.parent.iterdir()] == ["admin.key"]


def test_starts_at_one_time_agree(config: Config) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(lambda _: admin_key(config), range(64)))
    assert len(found) == 1
    assert [entry.name for entry in config.state_dir.iterdir()] == ["admin.key"]


def test_the_environment_comes_first(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "a-key-of-the-environment")
    assert admin_key(config) == "a-key-of-the-environment"
    assert not admin_key_file(config).exists()
    for bad in ("short", "with spaces in it, long", "ümlaut-ümlaut-ümlaut", "x" * 513):
        monkeypatch.setenv(VARIABLE, bad)
        with pytest.raises(AdminKeyError, match=VARIABLE) as caught:
            admin_key(config)
        assert bad not in str(caught.value)
    monkeypatch.setenv(VARIABLE, "")
    assert admin_key(config).startswith(PREFIX)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o622])
def test_a_file_that_is_open_to_others(config: Config, mode: int) -> None:
    admin_key(config)
    path = admin_key_file(config)
    path.chmod(mode)
    with pytest.raises(AdminKeyError) as caught:
        admin_key(config)
    assert f"chmod 600 {path}" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", b"two words of a key file\n", b"\xff" * 40])
def test_a_file_without_a_key(config: Config, content: bytes) -> None:
    admin_key(config)
    path = admin_key_file(config)
    path.write_bytes(content)
    with pytest.raises(AdminKeyError, match=str(path)):
        admin_key(config)


def test_a_state_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = msgspec.structs.replace(config_of(), state=str(tmp_path / "file" / "state"))
    with pytest.raises(AdminKeyError) as caught:
        admin_key(config)
    assert "file" in str(caught.value)
    assert "\n" not in str(caught.value)
    folder = msgspec.structs.replace(config_of(), state=str(tmp_path / "other"))
    admin_key_file(folder).mkdir(parents=True)
    with pytest.raises(AdminKeyError, match=r"admin\.key"):
        admin_key(folder)


def test_no_umask_opens_it(config: Config) -> None:
    old = os.umask(0)
    try:
        admin_key(config)
    finally:
        os.umask(old)
    assert stat.S_IMODE(admin_key_file(config).stat().st_mode) == 0o600


def test_matching() -> None:
    assert matches("Bearer secret", "secret")
    assert matches("bearer  secret ", "secret")
    for wrong in (
        None,
        "",
        "Bearer",
        "Bearer ",
        "secret",
        "Basic secret",
        "Bearer secrets",
        "Bearer secre",
        "Bearer é",
    ):
        assert not matches(wrong, "secret")
