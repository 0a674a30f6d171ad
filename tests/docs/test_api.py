"""The table of other servers' parameters in docs/api.md is the one that bodies are read by."""

from pathlib import Path

from gateway.api.openai.extension_params import table_of_extensions


def test_the_table_of_parameters_is_up_to_date() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    assert f"\n{table_of_extensions()}\n" in page
