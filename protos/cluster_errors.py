"""The tree's branch of what Kubernetes' API server does not do. No client ever sees one: they are for operators."""

from typing import Self

from protos.errors import PenstockError


class ClusterUnavailable(PenstockError):
    """The API server did not do what it was asked, or not in time; `detail` says what and why, in one line."""

    status = 503
    code = "cluster_unavailable"
    retryable = True

    @classmethod
    def of(cls, detail: str, retry_after: float | None = None) -> Self:
        """Make one. `retry_after` is in seconds."""
        failed = cls("The cluster's API server did not answer. Try again shortly.", retry_after=retry_after)
        failed.detail = detail
        return failed

    def __str__(self) -> str:
        return self.detail or self.message


class ClusterRefuses(ClusterUnavailable):
    """It does not allow it: `detail` names the verb and the resource that the role lacks."""

    retryable = False


class ClusterConflict(ClusterUnavailable):
    """The object has changed since it was read, or is there already."""


class ClusterObjectMissing(ClusterUnavailable):
    """There is no such object, or no such kind of objects."""

    retryable = False


class ClusterHistoryGone(ClusterUnavailable):
    """What is watched cannot be gone on with from there (410 Gone): it has to be listed anew."""
