"""Drift as it is shown: references out of the store, and the last windows beside them."""

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from gateway.config.models.drift import DriftSettings
from gateway.config.settings import Config
from gateway.rollouts.drift.drift_view import DriftModelView, DriftView, HistogramView, SubjectView, WindowView
from gateway.rollouts.drift.stored_slices import (
    Counts,
    SliceStorage,
    begin_reference,
    forget,
    reference_slices,
    slices,
    subjects,
)
from gateway.rollouts.drift.subject import SUBJECTS, Subject, slice_seconds
from gateway.tenancy.tenants.transactions import Entry, Place, commit, read
from observability.drift.describe import change_of
from observability.drift.features import FEATURES, Histogram
from observability.drift.reference import Layout, Reference
from protos.errors import ReplicaNotFound

#: Seconds by which workers' counts may come late.
_LATE_SECONDS: Final = 30.0

References = Mapping[str, Reference]


class DriftRegistry:
    """Shows drift, and begins references anew. Methods raise StoreUnavailable.

    References are worked out once and kept, and windows once for each slice, so that it may be asked often.
    """

    def __init__(self, storage: SliceStorage, config: Config) -> None:
        self._storage = storage
        self._models = {model.name: model.drift for model in config.models if model.drift is not None}
        self._references: dict[tuple[Subject, int], References] = {}
        self._last: tuple[int, dict[Subject, int], DriftView] | None = None
        self._turn = asyncio.Lock()

    async def view(self, model: str | None = None) -> DriftView:
        """Return the drift of all models that have it, or of one.

        Raises:
            ReplicaNotFound: No such model has drift.
        """
        if model is not None:
            self._settings(model)
        async with self._turn:
            view = await self._view()
        wanted = [one for one in view.models if model in (None, one.model)]
        return DriftView(at=view.at, models=wanted)

    async def reset(self, model: str, actor: str) -> DriftView:
        """Begin the references of a model anew: what comes from now on is what windows are compared with.

        Raises:
            ReplicaNotFound: No such model has drift.
        """
        days = self._settings(model).reference_days
        async with self._turn:
            now, _ = await read(self._storage, [Place(SUBJECTS, "any")])
            found = await subjects(self._storage)
            for subject in found:
                if (subject.model, subject.days) == (model, days):
                    await begin_reference(self._storage, subject, int(now / slice_seconds(subject.layout)))
            await commit(self._storage, [], Entry(actor, "drift.reset", model))
            self._last = None
        return await self.view(model)

    def _settings(self, model: str) -> DriftSettings:
        found = self._models.get(model)
        if found is None:
            raise ReplicaNotFound(f"No model {model!r} has `drift` in the configuration.")
        return found

    async def _view(self) -> DriftView:
        now, _ = await read(self._storage, [Place(SUBJECTS, "any")])
        seconds = slice_seconds(Layout())
        last = int((now - _LATE_SECONDS) / seconds) - 1
        found = await subjects(self._storage)
        if self._last is not None and self._last[:2] == (last, found):
            return self._last[2]
        models = []
        for name, settings in self._models.items():
            of_model = sorted(
                (subject for subject in found if (subject.model, subject.days) == (name, settings.reference_days)),
                key=lambda subject: (subject.side, subject.version),
            )
            views = [await self._subject(one, found[one], last, settings.false_alarms) for one in of_model]
            shown = [view for view in views if view is not None]
            models.append(DriftModelView(model=name, false_alarms=settings.false_alarms, subjects=shown))
        view = DriftView(at=(last + 1) * seconds, models=models)
        self._last = last, found, view
        return view

    async def _subject(self, subject: Subject, since: int, last: int, false_alarms: float) -> SubjectView | None:
        """Return a subject's drift; None for a version that answers no more."""
        layout, seconds = subject.layout, slice_seconds(subject.layout)
        wanted = reference_slices(subject, since)
        view = SubjectView(
            side=subject.side,
            version=subject.version,
            since=wanted.start * seconds,
            until=wanted.stop * seconds,
            state="gathering",
        )
        if last < wanted.stop - 1:
            return view
        references = self._references.get((subject, since))
        if references is None:
            counts = await slices(self._storage, subject, wanted)
            if not counts:
                # Nobody has looked after it for so long that the store has forgotten it.
                if subject.side == "output":
                    # Its version may never answer again: versions are not bounded.
                    await forget(self._storage, subject)
                else:
                    await begin_reference(self._storage, subject, last + 1)
                return None
            references = await asyncio.to_thread(_references, subject, wanted.start, counts)
            self._references = {key: one for key, one in self._references.items() if key[0] != subject}
            self._references[subject, since] = references
        # Slices of the reference are no news.
        begin = max(last + 1 - max(layout.widths), wanted.stop)
        window = await slices(self._storage, subject, range(begin, last + 1))
        if not window and subject.side == "output" and last + 1 - begin >= max(layout.widths):
            return None
        histograms = await asyncio.to_thread(_histograms, subject, references, window, last, begin, false_alarms)
        return replace(view, state="compared", histograms=histograms)


def _references(subject: Subject, first: int, counts: Mapping[int, Counts]) -> References:
    return {
        feature.name: Reference(
            feature.measure,
            subject.layout,
            first,
            {number: one.get(feature.name, {}) for number, one in counts.items()},
        )
        for feature in FEATURES
        if feature.side == subject.side
    }


def _histograms(
    subject: Subject,
    references: References,
    slices_: Mapping[int, Counts],
    last: int,
    begin: int,
    false_alarms: float,
) -> list[HistogramView]:
    found = []
    for feature in FEATURES:
        if feature.side != subject.side:
            continue
        reference = references[feature.name]
        windows, change = [], ""
        for width in subject.layout.widths:
            if last + 1 - width < begin:
                continue
            window: dict[int, Histogram] = {
                number: counts[feature.name]
                for number, counts in slices_.items()
                if number > last - width and feature.name in counts
            }
            # One of all histograms shall raise a false alarm so seldom.
            compared = reference.compare(window, width, false_alarms / len(FEATURES))
            if compared is None:
                continue
            if compared.drifted:
                change = change_of(feature, reference.shares(window))
            windows.append(
                WindowView(
                    hours=width * 24 // subject.layout.slots,
                    requests=compared.requests,
                    distance=round(compared.distance, 5),
                    threshold=round(compared.threshold, 5),
                    drifted=compared.drifted,
                )
            )
        drifted = any(one.drifted for one in windows)
        found.append(
            HistogramView(of=feature.name, measure=feature.measure, windows=windows, drifted=drifted, change=change)
        )
    return found
