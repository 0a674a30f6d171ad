"""The workloads that pools name."""

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.config.models.kubernetes import KubernetesService, WorkloadKind
from gateway.config.models.settings import Pool
from gateway.config.settings import Config
from gateway.kubernetes import resources
from gateway.kubernetes.objects import Workload
from gateway.kubernetes.resources import Resource
from replicas.launchers.launcher import LauncherError


@dataclass(frozen=True, slots=True, eq=False)
class PoolWorkload:
    """A workload whose pods, or groups of them, are replicas of a pool; `spot`: on preemptible nodes.

    `acts` False: it is looked at, and nothing is written; no role needs to allow more than that.
    """

    model: str
    pool: Pool
    kind: WorkloadKind
    name: str
    spot: bool
    namespace: str | None
    unplaced_seconds: float
    acts: bool = True

    @property
    def resource(self) -> Resource[Workload]:
        """Its kind of objects."""
        return resources.DEPLOYMENTS if self.kind == "deployment" else resources.LEADER_WORKER_SETS

    @property
    def is_ordered(self) -> bool:
        """Whether its replicas have indexes, of which a scale-down takes the highest."""
        return self.kind == "leaderworkerset"

    @property
    def record_name(self) -> str:
        """The name of the config map with its orders."""
        return f"penstock-{self.kind}-{self.name}"[:253]

    @property
    def service(self) -> KubernetesService | None:
        """The service by which its pods are found; None: they register themselves."""
        return self.pool.service

    def pods_of(self, workload: Workload) -> str:
        """The labels that select its pods, of a group the leader. Raises LauncherError."""
        if self.is_ordered:
            group = "leaderworkerset.sigs.k8s.io"
            return f"{group}/name={self.name},{group}/worker-index=0"
        selector = "" if workload.spec.selector is None else workload.spec.selector.text
        if not selector:
            # It would be all pods of the namespace.
            raise LauncherError(f"deployment {self.name} does not say which pods are its own")
        return selector


def pool_workloads(config: Config) -> Iterator[PoolWorkload]:
    """Yield what `launcher: kubernetes` scales."""
    for model in config.models:
        for pool in model.pools:
            workload = pool.workload
            if pool.launcher != "kubernetes" or workload is None:
                continue
            for name, spot in ((workload.name, False), (workload.spot, True)):
                if name:
                    yield PoolWorkload(
                        model=model.name,
                        pool=pool,
                        kind=workload.kind,
                        name=name,
                        spot=spot,
                        namespace=workload.namespace,
                        unplaced_seconds=workload.unschedulable_seconds,
                        acts=model.scaling is None or model.scaling.mode == "act",
                    )
