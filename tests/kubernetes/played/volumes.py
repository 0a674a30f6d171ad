"""A pod's volumes as folders, kept up to date as the kubelet does it: a new folder, then one renamed link."""

import asyncio
import base64
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import httpx

from tests.kubernetes.api import AsyncApi, Object
from tests.kubernetes.played.claims import folder_of


class NotYet(Exception):
    """An object that the pod needs is not there; the text names it."""


class Sources:
    """ConfigMaps, Secrets and tokens for one pod."""

    def __init__(self, api: AsyncApi, pod: Object) -> None:
        self._api = api
        self._pod = pod

    @property
    def namespace(self) -> str:
        return str(self._pod["metadata"]["namespace"])

    async def config_map(self, name: str) -> dict[str, bytes]:
        found = await self._get("configmaps", name)
        binary = {key: base64.b64decode(value) for key, value in found.get("binaryData", {}).items()}
        return {key: value.encode() for key, value in found.get("data", {}).items()} | binary

    async def secret(self, name: str) -> dict[str, bytes]:
        found = await self._get("secrets", name)
        return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}

    async def token(self, audience: str | None, seconds: int) -> bytes:
        """A token of the pod's account that ends with the pod."""
        meta = self._pod["metadata"]
        account = self._pod["spec"].get("serviceAccountName", "default")
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        spec: Object = {"expirationSeconds": max(600, seconds), "boundObjectRef": bound}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        try:
            answer = await self._api.call("POST", path, body)
        except httpx.HTTPStatusError as error:
            raise NotYet(f"token of {account}: {error.response.text}") from None
        return str(answer["status"]["token"]).encode()

    async def _get(self, kind: str, name: str) -> Any:
        try:
            return await self._api.call("GET", f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")
        except httpx.HTTPStatusError as error:
            raise NotYet(f"{kind} {name}: {error.response.status_code}") from None


class Volumes:
    """Folders for a pod's volumes; `paths` has them by the volume's name."""

    def __init__(self, folder: Path, claims: Path, pod: Object, sources: Sources, fields: dict[str, str]) -> None:
        self._folder = folder
        self._claims = claims
        self._spec = pod["spec"]
        self._pod = pod
        self._sources = sources
        self._fields = fields
        self._group = self._spec.get("securityContext", {}).get("fsGroup")
        self.paths: dict[str, Path] = {}

    async def prepare(self) -> None:
        """Make all of them.

        Raises:
            NotYet: What one of them holds is not there.
        """
        for volume in self._spec.get("volumes", []):
            path = self._folder / volume["name"]
            if "hostPath" in volume:
                self.paths[volume["name"]] = Path(volume["hostPath"]["path"])
                continue
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                path = folder_of(self._claims, self._sources.namespace, claim)
            path.mkdir(parents=True, exist_ok=True)
            self.paths[volume["name"]] = path
            if (files := await self._content(volume)) is not None:
                self._write(path, files)
            elif self._group is not None:
                os.chown(path, -1, self._group)
                path.chmod(0o2777)
            else:
                path.chmod(0o777)

    async def refresh(self) -> None:
        """Put what has changed meanwhile into the volumes that show an object."""
        for volume in self._spec.get("volumes", []):
            if "emptyDir" in volume or "hostPath" in volume or "persistentVolumeClaim" in volume:
                continue
            try:
                files = await self._content(volume)
            except (NotYet, httpx.HTTPError):
                continue  # as the kubelet does: what is there stays
            if files is not None:
                self._write(self.paths[volume["name"]], files)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _content(self, volume: Object) -> dict[str, tuple[bytes, int]] | None:
        if "projected" in volume:
            mode = volume["projected"].get("defaultMode", 0o644)
            files: dict[str, tuple[bytes, int]] = {}
            for source in volume["projected"]["sources"]:
                files |= await self._projected(source, mode)
            return files
        if "configMap" in volume or "secret" in volume:
            key = "configMap" if "configMap" in volume else "secret"
            return await self._projected({key: volume[key]}, volume[key].get("defaultMode", 0o644))
        if "downwardAPI" in volume:
            return await self._projected({"downwardAPI": volume["downwardAPI"]}, 0o644)
        return None

    async def _projected(self, source: Object, mode: int) -> dict[str, tuple[bytes, int]]:
        (kind, wanted), *_ = source.items()
        if kind == "serviceAccountToken":
            token = await self._sources.token(wanted.get("audience"), wanted.get("expirationSeconds", 3600))
            return {wanted["path"]: (token, mode)}
        if kind == "downwardAPI":
            return {
                item["path"]: (self._fields[item["fieldRef"]["fieldPath"]].encode(), mode) for item in wanted["items"]
            }
        read = self._sources.config_map if kind == "configMap" else self._sources.secret
        try:
            data = await read(wanted.get("name") or wanted["secretName"])
        except NotYet:
            if wanted.get("optional"):
                return {}
            raise
        if items := wanted.get("items"):
            missing = [item["key"] for item in items if item["key"] not in data]
            if missing and not wanted.get("optional"):
                raise NotYet(f"{kind} {wanted.get('name') or wanted.get('secretName')} has no key {missing[0]}")
            return {item["path"]: (data[item["key"]], item.get("mode", mode)) for item in items if item["key"] in data}
        return {key: (value, mode) for key, value in data.items()}

    def _write(self, path: Path, files: dict[str, tuple[bytes, int]]) -> None:
        """A folder of its own for this version, to which `..data` is turned at once; names lead through `..data`."""
        link = path / "..data"
        if link.exists() and _same(link, {name: value for name, (value, _) in files.items()}):
            return
        fresh = path / f"..{secrets.token_hex(6)}"
        for name, (value, mode) in files.items():
            target = fresh / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(value)
            if self._group is not None:
                os.chown(target, -1, self._group)
                mode |= 0o440
            target.chmod(mode)
        fresh.mkdir(exist_ok=True)
        before = link.resolve() if link.exists() else None
        turned = path / "..data_tmp"
        turned.symlink_to(fresh.name)
        turned.replace(link)
        heads = {Path(name).parts[0] for name in files}
        for old in [one for one in path.iterdir() if not one.name.startswith("..") and one.name not in heads]:
            old.unlink()
        for head in heads:
            if not (path / head).is_symlink():
                (path / head).symlink_to(f"..data/{head}")
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)


def _same(link: Path, files: dict[str, bytes]) -> bool:
    there = {str(one.relative_to(link)): one for one in link.rglob("*") if one.is_file()}
    return set(there) == set(files) and all(there[name].read_bytes() == value for name, value in files.items())


async def keep_fresh(volumes: Volumes, period_seconds: float) -> None:
    """Look for changes again and again, until it is cancelled."""
    while True:
        await asyncio.sleep(period_seconds)
        await volumes.refresh()
