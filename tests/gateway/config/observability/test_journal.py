"""The journal's part of the configuration."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.observability.journal import Journal, journal_problems, journal_settings, with_absolute_journal


def journal_of(**fields: Any) -> Journal:
    return msgspec.convert(fields, Journal)


def test_by_itself_it_is_kept_in_the_state_and_has_a_key(tmp_path: Path) -> None:
    settings = journal_settings(journal_of(), tmp_path)
    assert (settings.folder, settings.key_file) == (tmp_path / "journal", tmp_path / "journal.key")
    assert (settings.refuse, settings.keep_seconds) == (False, 90 * 86_400)
    assert list(journal_problems(journal_of(), "j")) == []


def test_a_folder_is_taken_from_the_files(tmp_path: Path) -> None:
    journal = with_absolute_journal(journal_of(folder="../audit", keyed=False, on_full="refuse"), tmp_path)
    settings = journal_settings(journal, tmp_path / "state")
    assert (settings.folder, settings.key_file) == (tmp_path.resolve().parent / "audit", None)
    assert settings.refuse
    assert with_absolute_journal(journal_of(), tmp_path) == journal_of()


@pytest.mark.parametrize(
    "fields", [{"flush_seconds": 0}, {"on_full": "x"}, {"ship": ["cmd"]}, {"keep_days": 0}, {"folder": ""}]
)
def test_what_makes_no_sense(fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        journal_of(**fields)


def test_less_is_kept_than_two_segments() -> None:
    found = list(journal_problems(journal_of(keep_bytes=1 << 20, segment_bytes=1 << 20), "observability.journal"))
    assert found == [("observability.journal.keep_bytes", "must be at least twice segment_bytes")]
