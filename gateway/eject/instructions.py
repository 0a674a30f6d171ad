"""Pure: what is to be done with what was written, as a page in Markdown."""

from collections.abc import Iterator
from shlex import quote
from typing import Final

from gateway.eject.values import Ejected, EjectOptions

_RANDOM: Final = "$(openssl rand -hex 32)"

#: What no configuration of one machine says.
_DECISIONS: Final = (
    "the image: build it (`deploy/Dockerfile` of Penstock's sources), push it to a registry that the cluster reads, "
    "and set `image.repository` and `image.tag`; `imagePullSecrets` where the registry asks for a key",
    "the way in: `ingress`, `httpRoute` or `gateway.service.type: LoadBalancer`, and `tls`; without one, the API can "
    "only be reached inside the cluster",
)


def instructions(ejected: Ejected, options: EjectOptions, namespace: str, apply: str) -> str:
    """The page; `apply` is the command that brings everything into the cluster."""
    return "\n".join(_lines(ejected, options, namespace, apply)) + "\n"


def _lines(ejected: Ejected, options: EjectOptions, namespace: str, apply: str) -> Iterator[str]:
    kubectl = f"kubectl --namespace {namespace} create"
    yield "# Penstock on Kubernetes, made by `penstock eject`"
    yield ""
    yield "Nothing here holds a secret. In this order:"
    yield ""
    yield f"    kubectl create namespace {namespace}"
    store = "store-url='rediss://USER:PASSWORD@HOST:PORT/0'" if ejected.external_store else f"store-password={_RANDOM}"
    keys = (f"admin-key={_RANDOM}", f"scrape-key={_RANDOM}", store)
    yield f"    {kubectl} secret generic {options.name} {' '.join(f'--from-literal={key}' for key in keys)}"
    if ejected.variables:
        values = " ".join(f'--from-literal={name}="${name}"' for name in ejected.variables)
        yield f"    {kubectl} secret generic {options.name}-env {values}"
    if ejected.secret_files:
        files = dict.fromkeys(
            quote(f"--from-file={use.target.rpartition('/')[2]}={use.source}") for use in ejected.secret_files
        )
        yield f"    {kubectl} secret generic {options.name}-files {' '.join(files)}"
    if ejected.tls:
        yield f"    {kubectl} secret tls {options.name}-tls --cert=CERTIFICATE.pem --key=KEY.pem"
    yield f"    {apply}"
    if ejected.volume_files:
        yield ""
        yield f"The claim `{options.models_claim}` needs, at its root:"
        yield ""
        for target, source in dict.fromkeys((use.target, use.source) for use in ejected.volume_files):
            yield f"- `{target.rpartition('/')[2]}`, which is `{source}` here"
    yield ""
    yield "Still to be decided:"
    yield ""
    yield from (f"- {each}" for each in (*_DECISIONS, *ejected.notes))
    yield ""
    yield "A first API key, once gateways run:"
    yield ""
    gateway = f"kubectl --namespace {namespace} exec deploy/{options.name}-gateway"
    yield f"    {gateway} -- penstock keys create --name first --config /etc/penstock/penstock.yaml"
