"""Manifests held against the schemas of what they are: Kubernetes' own, and those of custom resources' definitions."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

Manifest = dict[str, Any]

#: Versions of Kubernetes that the chart is for: the oldest, and the newest that schemas are at hand for.
OLDEST, NEWEST = "1.30", "1.37"


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it, for which `=` is a text like any other."""


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:value", _text)


def read(text: str) -> list[Manifest]:
    """The objects of a stream of YAML documents."""
    return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]


def name_of(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


class Definitions:
    """The schemas of custom resources, by API version and kind, from the files of their definitions."""

    def __init__(self, folder: Path) -> None:
        self.schemas: dict[tuple[str, str], dict[str, Any]] = {}
        for file in sorted(folder.rglob("*.yaml")):
            for document in read(file.read_text()):
                if document.get("kind") == "CustomResourceDefinition":
                    self._take(document["spec"])

    def _take(self, spec: Mapping[str, Any]) -> None:
        for version in spec["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            # What every object has, which a definition leaves out.
            schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {}}
            self.schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """A structural schema that refuses unknown fields: an API server drops them without a word."""
    found = {key: _strict_part(key, value) for key, value in schema.items()}
    if "properties" in found and not found.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    if found.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
        found["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return found


def _strict_part(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: strict(part) for name, part in value.items()}
    if key in {"items", "additionalProperties"} and isinstance(value, dict):
        return strict(value)
    # Parts of anyOf, oneOf, allOf and not speak of fields that are declared beside them, and are left as they are.
    return value


# It reads its schemas anew for each object, which takes most of its time; nobody changes what it has read.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)

#: Groups of APIs that Kubernetes itself has, of those that are used.
_BUILT_IN = frozenset(
    {"", "apps", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "scheduling.k8s.io"}
)


def is_built_in(manifest: Manifest) -> bool:
    """Whether Kubernetes itself has such objects, so that no definition is needed."""
    group, slash, _ = manifest["apiVersion"].partition("/")
    return (group if slash else "") in _BUILT_IN


def problems(manifest: Manifest, definitions: Definitions | None) -> Iterator[str]:
    """Say what is wrong with an object, each with the path in it. Only custom resources need definitions."""
    # No schema says so, and an API server refuses a volume that has two.
    for volume in _volumes(manifest):
        if len(volume) != 2:
            yield f"{name_of(manifest)}: the volume {volume['name']} has not one source: {', '.join(volume)}"
    if not is_built_in(manifest):
        schema = None if definitions is None else definitions.schemas.get((manifest["apiVersion"], manifest["kind"]))
        if schema is None:
            yield f"{name_of(manifest)}: nothing is known of {manifest['apiVersion']} {manifest['kind']}"
            return
        for error in jsonschema.Draft202012Validator(schema).iter_errors(manifest):
            yield f"{name_of(manifest)}: {error.json_path}: {error.message}"
        return
    for version in (OLDEST, NEWEST):
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{name_of(manifest)} ({version}): {'.'.join(map(str, error.path))}: {error.message}"
        except kubernetes_validate.SchemaNotFoundError:
            yield f"{name_of(manifest)} ({version}): nothing is known of {manifest['apiVersion']} {manifest['kind']}"


def _volumes(part: Any) -> Iterator[dict[str, Any]]:
    """The volumes of all pods that an object has templates of."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "volumes" and "containers" in part:
                yield from value
            else:
                yield from _volumes(value)
    elif isinstance(part, list):
        for value in part:
            yield from _volumes(value)
