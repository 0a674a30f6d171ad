"""`python -m tools.chart`: write the chart's README and its rendered examples."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.chart.rendering import CHART, RENDERED, RenderError, example_names, rendered
from tools.chart.values_table import values_table

README: Final = CHART / "README.md"
#: What stands in the README before the table that is made.
MARK: Final = "<!-- Made by `make chart` from values.yaml; a change below is lost. -->"


def readme(text: str, values: str) -> str:
    """The README with its table made anew. Raises ValueError without the mark."""
    before, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError(f"{README}: the line {MARK} is missing")
    return f"{before}{MARK}\n\n{values_table(values)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.chart", description=__doc__)
    parser.add_argument(
        "--helm", type=Path, default=Path("helm"), metavar="PROGRAM", help="Helm (default: of the path)"
    )
    arguments = parser.parse_args(argv)
    folder = Path()
    try:
        README.write_text(readme(README.read_text(), (CHART / "values.yaml").read_text()))
        RENDERED.mkdir(exist_ok=True)
        for name in example_names(folder):
            (RENDERED / f"{name}.yaml").write_text(rendered(arguments.helm, folder, name))
    except (OSError, RenderError, ValueError) as error:
        print(f"tools.chart: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
