"""What readers find: one record for each mention, with the file and line that it stands in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

#: Folders and files whose mentions are of tests: they are reported, and nothing is proposed for them.
_TEST_FOLDERS: Final = frozenset({"test", "tests", "__tests__", "testing", "testdata", "fixtures", "cassettes"})


class Kind(StrEnum):
    """What a mention is of."""

    WEIGHTS = "weights"  # a model that the application loads or an engine serves
    PART = "part"  # a tokenizer, processor or configuration of a model, or its adapter
    HOSTED = "hosted"  # a model that a provider's API serves
    ASKED = "asked"  # a model that a client asks a server for, which may be either
    URL = "url"  # the address of a model's files
    CLIENT = "client"  # a client of an API, with its base URL if there is one
    KEY = "key"  # the name of a variable that has an API key
    PACKAGE = "package"  # a library that a manifest or lock file lists


class Task(StrEnum):
    """What a model is for; only the first three are served by the gateway."""

    GENERATE = "generate"
    EMBED = "embed"
    RERANK = "rerank"
    CLASSIFY = "classify"
    IMAGE = "image"
    SPEECH = "speech"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One mention. `value` is a model's id, a URL, the name of a variable, or of a package."""

    file: str
    line: int
    kind: Kind
    value: str
    how: str
    provider: str = ""
    task: Task = Task.UNKNOWN
    base_url: str = ""
    key_variable: str = ""
    engine: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    #: Names under which the server answers for the model, beside `value`.
    served_as: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """File and line, as a terminal links them."""
        return f"{self.file}:{self.line}"

    @property
    def of_tests(self) -> bool:
        """Whether the mention stands in the application's tests."""
        path = PurePosixPath(self.file)
        name = path.name.lower()
        return (
            not _TEST_FOLDERS.isdisjoint(part.lower() for part in path.parts[:-1])
            or name.startswith("test_")
            or any(mark in name for mark in (".test.", ".spec.", "_test."))
            or name == "conftest.py"
        )
