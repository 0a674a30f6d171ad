"""The played storage: each claim of a volume gets a folder of this machine, which outlives the pods that use it."""

import asyncio
from pathlib import Path

import httpx

from tests.kubernetes.api import AsyncApi, Object

_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
_RETRY_SECONDS = 1.0


def folder_of(claims: Path, namespace: str, name: str) -> Path:
    """The folder of a claim."""
    return claims / f"{namespace}_{name}"


async def provision(api: AsyncApi, claims: Path) -> None:
    """Make a volume for each claim that has none, until it is cancelled; the controller manager binds them."""
    while True:
        try:
            listed = await api.call("GET", _CLAIMS)
            for one in listed["items"]:
                await _provide(api, claims, one)
            async for event in api.watch(_CLAIMS, listed["metadata"]["resourceVersion"]):
                if event["type"] == "ADDED":
                    await _provide(api, claims, event["object"])
        except httpx.HTTPError:
            await asyncio.sleep(_RETRY_SECONDS)


async def _provide(api: AsyncApi, claims: Path, claim: Object) -> None:
    meta, spec = claim["metadata"], claim["spec"]
    if spec.get("volumeName"):
        return
    folder = folder_of(claims, meta["namespace"], meta["name"])
    folder.mkdir(parents=True, exist_ok=True)
    owner = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"claim-{meta['uid']}"},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": spec.get("storageClassName", ""),
            "hostPath": {"path": str(folder)},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **owner},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
    try:
        await api.call("POST", _VOLUMES, volume)
    except httpx.HTTPStatusError as error:
        if error.response.status_code != httpx.codes.CONFLICT:
            raise
