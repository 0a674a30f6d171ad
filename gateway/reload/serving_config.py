"""Find the configuration for a command: its file, or, where that is refused, the one that the gateway here serves."""

import asyncio
from pathlib import Path

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import DEFAULT_STATE, Config
from gateway.reload.plan import plan
from gateway.reload.supervisor_socket import SupervisorError, current, the_supervisor
from gateway.store.socket_path import SocketPathError
from observability.terminal import note


def serving_config(command: str, file: Path) -> Config:
    """Load a configuration for a command that works on what runs, such as `keys`.

    While a gateway of this machine that was started with the file serves with an earlier one, because this cannot be
    used or needs a restart, the earlier one counts, and a line on stderr says so. Raises ConfigError.
    """
    try:
        config = load_config(file)
    except ConfigError as error:
        if (serving := _serving(file)) is None:
            raise
        note(command, f"{error}; going by what serves here with that file")
        return serving
    serving = _serving(file)
    if serving is None or not (restart := plan(serving, config).restart):
        return config
    note(command, f"{file}: it needs a restart ({restart[0].shown_path}); going by what serves here with that file")
    return serving


def state_dir_of(file: Path) -> Path:
    """The state directory that a file names, whatever else is wrong with it. Raises ConfigError."""
    from gateway.config.yaml import parse_yaml, read_text  # deferred: processes that serve need no YAML

    source, text = str(file), read_text(file)
    try:
        value = parse_yaml(text, source)
    except ConfigError:
        # What is wrong may be anywhere else.
        value = parse_yaml("\n".join(line for line in text.splitlines() if line.startswith("state:")), source)
    state = value.get("state", DEFAULT_STATE) if isinstance(value, dict) else DEFAULT_STATE
    if not isinstance(state, str):
        raise ConfigError(source, "state", "expected a string")
    return (file.resolve().parent / state).resolve()


def _serving(file: Path) -> Config | None:
    """Return the configuration of the gateway that was started here with this file; None: it does not answer."""
    try:
        said = asyncio.run(current(the_supervisor(state_dir_of(file))))
        return said.config if Path(said.file).samefile(file) else None
    except (ConfigError, SupervisorError, SocketPathError, OSError):
        return None
