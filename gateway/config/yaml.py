"""Parse a YAML file into plain values; every error is one line with the file and the position."""

from pathlib import Path
from typing import Any

import yaml

from gateway.config.errors import ConfigError, echo


class _UniqueKeyLoader(yaml.SafeLoader):
    """A YAML loader that refuses repeated keys, of which YAML would keep the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build one mapping after checking for repeated keys.

        Raises:
            yaml.constructor.ConstructorError: A key occurs twice.
        """
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{echo(key.value)} is given twice in the same mapping", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path) -> object:
    """Parse a YAML file into plain values.

    Raises:
        ConfigError: The file cannot be read, is not UTF-8 text, or is not YAML; syntax errors name line and column.
    """
    return parse_yaml(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Read a YAML file's text. Raises ConfigError."""
    source = str(path)
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(source, "", f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(source, "", f"not UTF-8 text at byte {error.start}") from error


def parse_yaml(text: str, source: str) -> object:
    """Parse YAML into plain values. Raises ConfigError, which names `source`, line and column."""
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.MarkedYAMLError as error:
        problem = " ".join(str(part) for part in (error.problem, error.context) if part)
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(source, place, problem or "not valid YAML") from error
    except yaml.YAMLError as error:
        raise ConfigError(source, "", " ".join(str(error).split())) from error
    except RecursionError as error:
        raise ConfigError(source, "", "nested too deeply") from error
    except ValueError as error:
        # PyYAML's constructors pass on what int() and datetime() raise for scalars such as 2024-99-99.
        raise ConfigError(source, "", f"a value cannot be read: {error}") from error
