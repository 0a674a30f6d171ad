"""Query the journal with DuckDB: segments are read in place, and of damaged ones the whole blocks.

The database lives in memory and can read the journal's files alone, whatever an expression asks for.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from observability.journal.block import HEAD_BYTES, Block, Damage, scan
from observability.journal.entries import ChangeEntry, JournalEvent, RequestEntry, VerdictEntry
from observability.journal.folder import chain_folders
from observability.journal.segment import SUFFIX, Segment, segments
from observability.journal.signer import Signer

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Table -> the kinds of its entries.
TABLES: Final[dict[str, type[msgspec.Struct]]] = {
    "requests": RequestEntry,
    "changes": ChangeEntry,
    "journal": JournalEvent,
}
#: SQL types of entries' fields; all others are texts.
_TYPES: Final[dict[Any, str]] = {
    int: "BIGINT",
    int | None: "BIGINT",
    bool: "BOOLEAN",
    datetime: "TIMESTAMP",
    list[VerdictEntry]: 'STRUCT(rule VARCHAR, "action" VARCHAR, "where" VARCHAR, label VARCHAR, times BIGINT)[]',
    Any: "JSON",
}
#: A segment sealed this long before the period has nothing of it, even if the clock was set meanwhile.
_SLACK_SECONDS: Final = 86_400.0
_MEMORY: Final = "1GiB"


class QueryError(ValueError):
    """A query cannot be answered; the text is one line that names the option at fault."""


class SegmentsRemoved(QueryError):
    """Retention removed segments while the query ran; the query may be repeated."""


class Answer(NamedTuple):
    """A query's result: column names and rows, and whether there were more rows than the limit."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool


class Period(NamedTuple):
    """A half-open interval of time, in seconds since 1970; the end is excluded."""

    since: float
    until: float


class JournalReader:
    """A database with a view for each of `TABLES`."""

    def __init__(self, connection: "DuckDBPyConnection", files: Sequence[Path], unreadable: list[str]) -> None:
        self._connection, self._files = connection, files
        #: A line for each segment that could not be read.
        self.unreadable = unreadable

    def rows(
        self,
        table: str,
        period: Period,
        *,
        tenant: str | None = None,
        where: str | None = None,
        select: str,
        group: str | None = None,
        order: str | None = None,
        limit: int,
    ) -> Answer:
        """Return entries, the newest first, or groups of them if `select` aggregates.

        `select` and `where` are SQL expressions of the user.

        Raises:
            QueryError: An expression cannot be used.
            SegmentsRemoved: Segments were removed meanwhile.
        """
        if where is not None:
            if not where.strip():
                raise QueryError("--where: expected an SQL expression")
            self._check("--where", f"SELECT 1 FROM {table} WHERE ({where}\n)")
        self._single("--select", f"SELECT {select}\nFROM {table}")
        if order is None and self._has_times(table, select):
            order = "time DESC"
        elif group is None:
            group = "ALL"
        self._check("--select", f"SELECT {select}\nFROM {table}{f' GROUP BY {group}' if group else ''}")
        values: list[object] = [_moment(period.since), _moment(period.until)]
        source = f"SELECT * FROM {table} WHERE time >= ? AND time < ?"
        if tenant is not None:
            source += " AND tenant = ?"
            values.append(tenant)
        question = f"SELECT {select}\nFROM ({source})"
        question += f" WHERE ({where}\n)" if where is not None else ""
        question += f" GROUP BY {group}" if group else ""
        question += f" ORDER BY {order or 'ALL'} LIMIT {limit + 1}"
        self._single("--where", question)
        cursor = self._run("--where", question, values)
        rows = cursor.fetchall()
        return Answer([column[0] for column in cursor.description], rows[:limit], len(rows) > limit)

    def _has_times(self, table: str, select: str) -> bool:
        """Return whether each row is an entry, and so has a time."""
        import duckdb

        try:
            self._connection.execute(f"EXPLAIN SELECT {select}\nFROM {table} ORDER BY time DESC")
        except duckdb.Error:
            return False
        return True

    def _check(self, option: str, question: str) -> None:
        """Check that an expression is valid by itself, before it stands beside others."""
        self._single(option, question)
        self._run(option, f"EXPLAIN {question}", [])

    def _single(self, option: str, question: str) -> None:
        """Check that the SQL is a single SELECT: a second statement could write to the files that may be read."""
        import duckdb

        try:
            statements = self._connection.extract_statements(question)
        except duckdb.Error as error:
            raise QueryError(f"{option}: {_message(error)}") from error
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryError(f"{option}: expected one SQL expression")

    def _run(self, option: str, question: str, values: Sequence[object]) -> "DuckDBPyConnection":
        import duckdb

        try:
            return self._connection.execute(question, values)
        except duckdb.Error as error:
            if not all(path.exists() for path in self._files):
                raise SegmentsRemoved("segments were removed while they were read") from error
            raise QueryError(f"{option}: {_message(error)}") from error


@contextlib.contextmanager
def open_journal(folder: Path, period: Period) -> Iterator[JournalReader]:
    """Open the part of a journal that may have entries of a period.

    Raises:
        OSError: The folder cannot be read.
        SegmentsRemoved: Segments were removed meanwhile.
    """
    import duckdb

    if not folder.is_dir():
        raise FileNotFoundError(None, "there is no such folder", str(folder))
    with tempfile.TemporaryDirectory(prefix="penstock-audit-") as scratch:
        unreadable: list[str] = []
        files = [path for path in _files(folder, period, Path(scratch), unreadable) if path is not None]
        connection = duckdb.connect(":memory:")
        try:
            try:
                _fence(connection, [str(path) for path in files])
            except duckdb.Error as error:
                if all(path.exists() for path in files):
                    raise
                raise SegmentsRemoved("segments were removed while they were read") from error
            yield JournalReader(connection, files, unreadable)
        finally:
            connection.close()


def _files(folder: Path, period: Period, scratch: Path, unreadable: list[str]) -> Iterator[Path | None]:
    for chain in chain_folders(folder):
        for segment in segments(chain):
            try:
                if segment.open or segment.path.stat().st_mtime + _SLACK_SECONDS >= period.since:
                    yield _usable(segment, scratch, unreadable)
            except FileNotFoundError:
                # The segment was sealed or removed since the folder was read.
                if segment.open and segment.sealed().path.exists():
                    yield _usable(segment.sealed(), scratch, unreadable)
            except OSError as error:
                unreadable.append(f"{segment.path}: {error.strerror or error}; it is left out")


def _usable(segment: Segment, scratch: Path, unreadable: list[str]) -> Path | None:
    """Return a complete segment's path, else a copy of its whole blocks; None where it has none."""
    with segment.path.open("rb") as file:
        whole: list[tuple[int, int]] = []
        damages: list[Damage] = []
        for item in scan(file, Signer()):
            if isinstance(item, Block):
                whole.append((item.offset + HEAD_BYTES, item.end))
            else:
                damages.append(item)
        # The tail of an open segment may be in the middle of a write.
        if damages and not (segment.open and len(damages) == 1 and damages[0].end >= file.seek(0, 2)):
            many = f"{len(damages)} places" if len(damages) > 1 else f"byte {damages[0].offset}"
            unreadable.append(f"{segment.path}: damaged at {many}: {damages[0].problem}; the rest is read")
        if not whole:
            return None
        if not segment.open and not damages:
            return segment.path
        path = scratch / f"{segment.path.parent.name}-{segment.chain.hex()}-{segment.number}{SUFFIX}"
        with path.open("wb") as copy:
            for start, end in whole:
                file.seek(start)
                copy.write(file.read(end - start))
        return path


def _fence(connection: "DuckDBPyConnection", files: list[str]) -> None:
    """Create the views, and forbid everything else."""
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET memory_limit = '{_MEMORY}'")
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute(f"SET allowed_paths = {_listed(files)}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    for name, entry in TABLES.items():
        fields = msgspec.structs.fields(entry)
        columns = {"kind": "VARCHAR", **{field.name: _TYPES.get(field.type, "VARCHAR") for field in fields}}
        form = ", ".join(f"{_quoted(column)}: {_quoted(type_)}" for column, type_ in columns.items())
        source = (
            f"read_json({_listed(files)}, format='newline_delimited', compression='zstd', columns={{{form}}})"
            if files
            else f"(SELECT {', '.join(f'NULL::{type_} AS {column}' for column, type_ in columns.items())})"
        )
        shown = ", ".join(map(_expression, fields))
        connection.execute(
            f"CREATE VIEW {name} AS SELECT {shown} FROM {source} WHERE kind = '{entry.__struct_config__.tag}'"
        )


def _expression(field: msgspec.structs.FieldInfo) -> str:
    """Select a column; a field that a line leaves out has its default."""
    default = [] if field.default_factory is list else field.default
    if default is None or default is msgspec.NODEFAULT:
        return field.name
    return f"coalesce({field.name}, {_quoted(default) if isinstance(default, str) else default}) AS {field.name}"


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _message(error: Exception) -> str:
    """Return the first line of DuckDB's error, without the error's class, and with the fields that it proposes."""
    text = str(error).strip()
    first, *rest = [line.strip() for line in text.splitlines() if line.strip()] or [text]
    _, _, words = first.partition("Error: ")
    proposals = next((line for line in rest if line.startswith(("Candidate", "Did you mean"))), "")
    return f"{words or first}{f' {proposals}' if proposals else ''}"
