"""What a container is started with: its environment, command and arguments, from the pod's own words."""

import re
from typing import Any

from tests.kubernetes.api import Object
from tests.kubernetes.played.images import Image
from tests.kubernetes.played.volumes import NotYet, Sources

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def pod_fields(pod: Object, pod_ip: str, host_ip: str) -> dict[str, str]:
    """The values of `fieldRef` and of downward volumes, by their paths."""
    meta, spec = pod["metadata"], pod["spec"]
    fields = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "spec.nodeName": spec["nodeName"],
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
    }
    for kind in ("labels", "annotations"):
        values = meta.get(kind, {})
        fields[f"metadata.{kind}"] = "\n".join(f'{key}="{value}"' for key, value in values.items())
        fields |= {f"metadata.{kind}['{key}']": value for key, value in values.items()}
    return fields


async def environment(
    container: Object, image: Image, fields: dict[str, str], given: dict[str, str], sources: Sources
) -> dict[str, str]:
    """What is given to all, then the image's variables, then the container's own, which may name those before them.

    Raises:
        NotYet: An object or key that one of them is taken from is not there.
    """
    env = {**given, **image.env}
    for whole in container.get("envFrom", []):
        kind = "configMapRef" if "configMapRef" in whole else "secretRef"
        data = await _data(kind, whole[kind], sources)
        env |= {whole.get("prefix", "") + key: value.decode() for key, value in data.items()}
    for one in container.get("env", []):
        value = await _value(one, container, fields, sources, env)
        if value is not None:
            env[one["name"]] = value
    return env


async def _value(
    one: Object, container: Object, fields: dict[str, str], sources: Sources, env: dict[str, str]
) -> str | None:
    source = one.get("valueFrom")
    if source is None:
        return expanded(one.get("value", ""), env)
    if "fieldRef" in source:
        return fields.get(source["fieldRef"]["fieldPath"], "")
    if "resourceFieldRef" in source:
        what, _, name = source["resourceFieldRef"]["resource"].partition(".")
        return quantity(container.get("resources", {}).get(what, {}).get(name, "0"))
    kind = "configMapKeyRef" if "configMapKeyRef" in source else "secretKeyRef"
    wanted = source[kind]
    data = await _data(kind, wanted, sources)
    if wanted["key"] not in data:
        if wanted.get("optional"):
            return None
        raise NotYet(f"{kind} {wanted['name']} has no key {wanted['key']}")
    return data[wanted["key"]].decode()


async def _data(kind: str, wanted: Any, sources: Sources) -> dict[str, bytes]:
    read = sources.config_map if kind.startswith("configMap") else sources.secret
    try:
        return await read(wanted["name"])
    except NotYet:
        if wanted.get("optional"):
            return {}
        raise


def quantity(text: str) -> str:
    """A quantity as an integer, rounded up, as the kubelet gives it to a container."""
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    for unit, factor in units.items():
        if text.endswith(unit):
            return str(int(float(text.removesuffix(unit)) * factor))
    if text.endswith("m"):
        return str(-(-int(text[:-1]) // 1000))
    return text


def expanded(text: str, env: dict[str, str]) -> str:
    """`$(NAME)` as the variable's value; what is not known stays, and `$$` is a dollar."""

    def replacement(found: re.Match[str]) -> str:
        return "$" if found[1] is None else env.get(found[1], found[0])

    return _REFERENCE.sub(replacement, text)


def command_of(container: Object, image: Image, env: dict[str, str]) -> list[str]:
    """The container's command and arguments, or what the image has in their place."""
    command = container.get("command") or list(image.entrypoint)
    arguments = container.get("args") or ([] if container.get("command") else list(image.command))
    return [expanded(part, env) for part in (*command, *arguments)]
