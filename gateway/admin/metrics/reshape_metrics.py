"""The metrics of shapes, from what their controller has told last."""

from collections import Counter
from collections.abc import Iterator

from gateway.reshaping.change import ModelShapes
from gateway.reshaping.shape_records import ShapeRecords
from observability.exposition import Family
from observability.metrics import reshape_declarations as declared
from observability.metrics.metric import Metric
from observability.metrics.names import label

_Value = tuple[Metric, float, tuple[str, ...]]


def reshape_families(records: ShapeRecords) -> list[Family]:
    """Make the metrics; while there is no controller, nothing is said of groups, as nobody hears them."""
    values: list[_Value] = [(declared.CONTROLLER_UP, float(bool(records.controller)), ())]
    for model, totals in records.totals.items():
        values.append((declared.CHANGES, totals.done, (model, "done")))
        values.append((declared.CHANGES, totals.failed, (model, "failed")))
        values.append((declared.CHANGES, totals.refused, (model, "refused")))
        values.append((declared.CHANGE_SECONDS, totals.seconds, (model,)))
    if records.told is not None:
        values.append((declared.EVENTS_LOST, records.told.lost, ()))
    if records.told is not None and records.controller:
        for shapes in records.told.models:
            values += _model(shapes)
    found: dict[str, Family] = {}
    for metric, value, labels in values:
        family = found.setdefault(metric.name, Family(metric.name, metric.kind, metric.help))
        family.add(value, **dict(zip(metric.labels, map(label, labels), strict=True)))
    return list(found.values())


def _model(shapes: ModelShapes) -> Iterator[_Value]:
    yield declared.ADVISED, float(shapes.advice is not None), (shapes.model,)
    for group in shapes.groups:
        of = (shapes.model, group.group)
        yield declared.GROUP_BLOCKED, float(bool(group.held)), of
        counts = Counter(group.shape)
        # A width that nobody has now keeps its series, so that it goes to zero.
        for width in sorted({one.width for one in group.widths} | counts.keys()):
            yield declared.GROUP_REPLICAS, counts[width], (*of, str(width))
