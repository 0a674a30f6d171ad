"""Make table panels: several instant queries whose series with the same labels share a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tools.dashboards.panels import Json, Panel, Query, steps

_NOT_SHOWN: Final = ("Time", "__name__", "instance", "job")
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Column:
    """A column of values. `colors`: thresholds of its cells' text; `bar`: drawn as a bar from 0 to 1."""

    title: str
    expr: str
    unit: str = "short"
    colors: Json | None = None
    bar: bool = False
    names: Mapping[str, str] | None = None


def table(
    title: str,
    description: str,
    keys: Mapping[str, str],
    columns: Sequence[Column],
    *,
    sort_by: str,
    link: tuple[str, str, str] | None = None,
    width: int = 24,
    height: int = 9,
    empty: str = "-",
) -> Panel:
    """Make a table with a row for each set of the labels `keys`, which map to their headings. `link` is label, words
    and address; `empty` stands for missing values.
    """
    queries = tuple(Query(column.expr, column.title, instant=True, format="table") for column in columns)
    values = {f"Value #{letter}": column.title for letter, column in zip(_LETTERS, columns, strict=False)}
    if len(columns) == 1:
        values = {"Value": columns[0].title}
    organized = {
        "excludeByName": dict.fromkeys(_NOT_SHOWN, True),
        "indexByName": {name: place for place, name in enumerate([*keys, *values])},
        "renameByName": {**keys, **values},
    }
    transformations: list[Json] = [{"id": "organize", "options": organized}]
    if len(columns) > 1:
        transformations.insert(0, {"id": "merge", "options": {}})
    options = {
        "cellHeight": "sm",
        "frameIndex": 0,
        "showHeader": True,
        "sortBy": [{"displayName": sort_by, "desc": sort_by not in keys.values()}],
    }
    defaults = {
        "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True, "inspect": False},
        "mappings": [],
        "noValue": empty,
        "thresholds": steps(),
    }
    overrides = [_column(column) for column in columns]
    if link is not None:
        label, words, url = link
        overrides.append(_override(keys[label], links=[{"title": words, "url": url}]))
    more = {"transformations": transformations}
    return Panel("table", title, description, queries, options, defaults, width, height, tuple(overrides), more)


def _column(column: Column) -> Json:
    properties: Json = {"unit": column.unit}
    if column.colors is not None:
        properties |= {"thresholds": column.colors, "custom.cellOptions": {"type": "color-text"}}
    if column.bar:
        bar = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
        properties |= {"min": 0, "max": 1, "custom.cellOptions": bar}
    if column.names is not None:
        mapped = {
            str(place): {"text": name, "color": color, "index": place}
            for place, (name, color) in enumerate(column.names.items())
        }
        properties |= {
            "mappings": [{"type": "value", "options": mapped}],
            "custom.cellOptions": {"type": "color-text"},
        }
    return _override(column.title, **properties)


def _override(name: str, **properties: object) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }
