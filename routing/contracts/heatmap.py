"""DeepFlow's heatmap (section 5.3) as a file: where a prefill/decode pair answers sooner than colocated replicas.

Rows are prefill lengths, columns ratios of decode to prefill length. A cell is the mean completion time (JCT) of
requests of these lengths on colocated replicas over that on a pair, minus one, summed over several request rates:
positive where the pair is better. `penstock bench heatmap` writes such files.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import isfinite, sqrt
from pathlib import Path
from typing import Final, Literal

import msgspec

from protos.types import Shape

#: The version of the form that is written, and the only one that is read.
VERSION: Final = 1

#: A number for each prefill length and ratio; None where the requests do not fit the model's context.
Cells = tuple[tuple[float | None, ...], ...]


class HeatmapError(Exception):
    """A file is not a usable heatmap; the message names the file, the field and the problem."""


class Comparison(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Colocated replicas of one shape against a pair of two, with as many GPUs on either side.

    `cells` are summed over the rates; `pair_seconds` is the pair's JCT averaged over the rates.
    """

    colocated: Shape
    prefill: Shape
    decode: Shape
    cells: Cells
    pair_seconds: Cells


class HeatmapFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file's JSON schema. `rates` are requests per second; `prefill_tokens` and `ratios` ascend."""

    format: Literal["penstock-heatmap"]
    version: int
    model: str
    rates: tuple[float, ...]
    prefill_tokens: tuple[int, ...]
    ratios: tuple[float, ...]
    comparisons: tuple[Comparison, ...]


class Heatmap:
    """A valid heatmap, indexed for lookups."""

    def __init__(self, file: HeatmapFile) -> None:
        """Raises ValueError, which names the field, for axes and cells that do not fit each other."""
        for field, problem in _problems(file):
            raise ValueError(f"{field}: {problem}")
        self.file = file
        # The nearest row on a logarithmic scale changes at the geometric mean of two neighbours.
        self._prompts = _borders(file.prefill_tokens)
        self._ratios = _borders(file.ratios)
        self._comparisons = {(c.colocated, c.prefill, c.decode): c for c in file.comparisons}

    @property
    def model(self) -> str:
        """Name of the model that was measured."""
        return self.file.model

    def gain(
        self, colocated: Shape, prefill: Shape, decode: Shape, prompt_tokens: float, output_tokens: float
    ) -> float | None:
        """Return the seconds by which the pair is expected to answer sooner; negative: later.

        None where these shapes were not compared. Lengths beyond the map count as those at its edge.
        """
        comparison = self._comparisons.get((colocated, prefill, decode))
        if comparison is None:
            return None
        row = bisect_right(self._prompts, prompt_tokens)
        column = bisect_right(self._ratios, output_tokens / max(prompt_tokens, 1.0))
        cells, seconds = comparison.cells[row], comparison.pair_seconds[row]
        while column >= 0:
            cell, pair_seconds = cells[column], seconds[column]
            if cell is not None and pair_seconds is not None:
                return cell / len(self.file.rates) * pair_seconds
            column -= 1
        return 0.0

    def missing(
        self, colocated: Iterable[Shape], prefill: Iterable[Shape], decode: Iterable[Shape]
    ) -> Iterator[tuple[Shape, Shape, Shape]]:
        """Yield the combinations of these shapes that were not compared."""
        legs = [(before, after) for before in dict.fromkeys(prefill) for after in dict.fromkeys(decode)]
        for shape in dict.fromkeys(colocated):
            yield from ((shape, *pair) for pair in legs if (shape, *pair) not in self._comparisons)

    def gap(self, colocated: Iterable[Shape], prefill: Iterable[Shape], decode: Iterable[Shape]) -> str:
        """Describe the missing combinations of these shapes; empty where none is missing."""
        missing = list(self.missing(colocated, prefill, decode))
        if not missing:
            return ""
        whole, before, after = map(_text, missing[0])
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return f"comparisons: {whole} colocated with {before} prefill and {after} decode is missing{more}"


def _text(shape: Shape) -> str:
    """Format a shape as an argument of `penstock bench heatmap`."""
    degrees = (("tp", shape.tp), ("ep", shape.ep), ("pp", shape.pp))
    return ":".join(f"{name}={degree}" for name, degree in degrees if degree > 1 or name == "tp")


def load_heatmap(path: Path) -> Heatmap:
    """Read and check a file. Raises HeatmapError."""
    try:
        return Heatmap(msgspec.json.decode(path.read_bytes(), type=HeatmapFile))
    except OSError as error:
        raise HeatmapError(f"{path}: cannot be read: {error.strerror or error}") from error
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        where = f"{place.removesuffix('`')}: " if place else ""
        raise HeatmapError(f"{path}: {where}{problem}") from error
    except ValueError as error:
        raise HeatmapError(f"{path}: {error}") from error


def save_heatmap(file: HeatmapFile, path: Path) -> None:
    """Write a file, one row of cells a line. Raises OSError."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")


def _borders(axis: Sequence[float]) -> list[float]:
    return [sqrt(low * high) for low, high in pairwise(axis)]


def _problems(file: HeatmapFile) -> Iterator[tuple[str, str]]:
    """Yield (field, problem) for each value that is wrong in a file of the right schema."""
    if file.version != VERSION:
        yield "version", f"expected {VERSION}, got {file.version}"
    axes: tuple[tuple[str, Sequence[float]], ...] = (
        ("rates", file.rates),
        ("prefill_tokens", file.prefill_tokens),
        ("ratios", file.ratios),
    )
    for name, axis in axes:
        if not axis:
            yield name, "is empty"
        elif not all(isfinite(value) and value > 0 for value in axis):
            yield name, "must be positive and finite"
        elif any(low >= high for low, high in pairwise(axis)):
            yield name, "must ascend"
    if not file.comparisons:
        yield "comparisons", "is empty"
    seen: set[tuple[Shape, Shape, Shape]] = set()
    for number, comparison in enumerate(file.comparisons):
        where = f"comparisons[{number}]"
        shapes = (comparison.colocated, comparison.prefill, comparison.decode)
        if shapes in seen:
            yield where, "compares the same shapes as another one"
        seen.add(shapes)
        for name, cells in (("cells", comparison.cells), ("pair_seconds", comparison.pair_seconds)):
            if len(cells) != len(file.prefill_tokens):
                yield f"{where}.{name}", f"expected {len(file.prefill_tokens)} rows, got {len(cells)}"
            for place, row in enumerate(cells):
                if len(row) != len(file.ratios):
                    yield f"{where}.{name}[{place}]", f"expected {len(file.ratios)} cells, got {len(row)}"
                elif not all(cell is None or isfinite(cell) for cell in row):
                    yield f"{where}.{name}[{place}]", "must be finite"
