"""A snapshot of one model for a round of the controller of shapes."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from gateway.config.models.reshape.settings import Reshape
from gateway.reshaping.change import Change, Totals, place_of
from gateway.reshaping.relaunch_facts import RelaunchFacts
from gateway.reshaping.replica_links import SeenReplica
from gateway.reshaping.shape_inputs import ShapeInputs
from gateway.reshaping.shape_orders import ShapeOrder
from gateway.scaling.intents import Intent
from gateway.scaling.shape_holds import NO_HOLDS, ShapeHolds
from protos.reshape import MemberWidth
from replicas.controller.scaling_settings import Slo
from replicas.reshape.decide import ReshapeSettings
from replicas.reshape.group_view import GroupView, Member, groups_of
from replicas.reshape.obstacles import widths_of
from replicas.reshape.ordered_change import ENDED


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One model at `now`. `changes` and `orders` are by group.

    `taken` are ids of orders that were seen to, by group. `unheard`: some of the replicas that are held are not heard
    just now, and may be what they were all the same.
    """

    now: float
    model: str
    settings: Reshape
    slo: Slo
    seen: Sequence[SeenReplica]
    inputs: ShapeInputs
    changes: Mapping[str, Change]
    orders: Mapping[str, ShapeOrder]
    taken: Mapping[str, str]
    totals: Totals
    unheard: bool = False
    relaunch: RelaunchFacts | None = None

    @property
    def reshape_settings(self) -> ReshapeSettings:
        """The settings that decisions go by."""
        told = self.settings
        return ReshapeSettings(
            told.patience_seconds, told.cool_down_seconds, told.margin, told.horizon_seconds, told.headroom
        )

    @cached_property
    def members(self) -> dict[str, Member]:
        """The replicas that are in groups, by address."""
        return {
            one.spec.address: msgspec.structs.replace(
                one.member, longest=self.inputs.longest(self.model, one.spec.address)
            )
            for one in self.seen
            if one.member is not None
        }

    @cached_property
    def views(self) -> dict[str, GroupView]:
        """The groups, by name."""
        return groups_of(self.members.values())

    @cached_property
    def pools(self) -> dict[str, str]:
        """The pool of each replica, by address."""
        return {one.spec.address: one.spec.pool for one in self.seen}

    @cached_property
    def intents(self) -> dict[str, Intent]:
        """Intents of the controller of sizes for replicas that launchers have started, by address."""
        return {intent.address: intent for intent in self.inputs.intents if intent.model == self.model}

    @property
    def holds(self) -> ShapeHolds:
        """The holds that are in the store."""
        return self.inputs.holds.get(self.model, NO_HOLDS)

    @property
    def under_way(self) -> list[Change]:
        """Changes that have not come to their end."""
        return [change for change in self.changes.values() if change.phase not in ENDED]

    def widths(self, view: GroupView) -> dict[int, MemberWidth]:
        """Return the widths that all engines of a group can take."""
        return widths_of(view.members)

    def barred(self, view: GroupView) -> str:
        """Say what forbids a change of a group, whoever asks for it; empty: nothing does."""
        if view.problem:
            return view.problem
        if self.model in self.inputs.rollouts:
            return f"a rollout of {self.model} to {self.inputs.rollouts[self.model]} is under way"
        specs = {one.spec.address: one.spec for one in self.seen}
        for member in view.members:
            if member.draining:
                return f"{member.address} drains"
            if drained := self.inputs.drained(specs[member.address]):
                return drained
            intent = self.intents.get(member.address)
            if intent is not None and (intent.state != "run" or not intent.ready):
                return f"the controller of sizes is {_DOING[intent.state]} {member.address}"
        change = self.changes.get(view.name)
        if (change is None or change.phase in ENDED) and not all(member.settled for member in view.members):
            return f"change {view.change} of it is under way, which this gateway knows nothing of"
        return ""

    def place(self, group: str) -> str:
        """Return a group's field in the store."""
        return place_of(self.model, group)


_DOING: Final = {"run": "starting", "drain": "draining", "stop": "stopping"}
