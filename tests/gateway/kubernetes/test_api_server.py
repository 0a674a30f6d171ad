from pathlib import Path

import pytest
import yaml

from gateway.kubernetes import api_server
from gateway.kubernetes.api_server import ApiServer
from gateway.kubernetes.resources import CONFIG_MAPS, DEPLOYMENTS, PODS
from protos.cluster_errors import ClusterConflict, ClusterObjectMissing, ClusterRefuses, ClusterUnavailable
from tests.played_cluster import kubeconfig_of, played_cluster
from tests.upstreams import Caller, Heard, plain


async def test_objects_are_read_and_written(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        server = ApiServer(str(cluster.kubeconfig))
        made = await server.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
        version = made.metadata.resource_version
        changed = await server.replace(
            CONFIG_MAPS, "c", {"metadata": {"name": "c", "resourceVersion": version}, "data": {"a": "2"}}
        )
        assert changed.data == {"a": "2"}
        with pytest.raises(ClusterConflict, match=r"update configmaps: the object has been modified"):
            await server.replace(CONFIG_MAPS, "c", {"metadata": {"name": "c", "resourceVersion": version}})
        with pytest.raises(ClusterConflict):
            await server.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
        with pytest.raises(ClusterObjectMissing):
            await server.get(CONFIG_MAPS, "d")
        cluster.put("deployments", {"metadata": {"name": "w"}, "spec": {"replicas": 1}})
        await server.patch(DEPLOYMENTS, "w", {"spec": {"replicas": 3}}, subresource="scale")
        assert (await server.get(DEPLOYMENTS, "w")).spec.replicas == 3
        pod = cluster.put("pods", {"metadata": {"name": "p"}})
        await server.delete(PODS, "p", "another-uid", 5)
        assert (await server.get(PODS, "p")).metadata.deletion_timestamp is None
        await server.delete(PODS, "p", pod["metadata"]["uid"], 5)
        assert (await server.get(PODS, "p")).metadata.deletion_timestamp
        await server.delete(PODS, "gone", "u", 5)
        await server.aclose()


async def test_a_refusal_names_the_verb_and_the_resource(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        cluster.lacks = {"patch deployments/scale", "get pods"}
        cluster.put("deployments", {"metadata": {"name": "w"}, "spec": {"replicas": 1}})
        server = ApiServer(str(cluster.kubeconfig))
        with pytest.raises(ClusterRefuses, match=r"^the role lacks the verb patch on deployments\.apps/scale: "):
            await server.patch(DEPLOYMENTS, "w", {"spec": {"replicas": 3}}, subresource="scale")
        with pytest.raises(ClusterRefuses, match=r"^the role lacks the verb get on pods: "):
            await server.get(PODS, "p")
        await server.aclose()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "Configuration file"),
        ("", "no API server is configured"),
        ("[]", "no API server is configured"),
        ("clusters: 7", "no API server is configured"),
        ("{clusters: [], contexts: [], current-context: c}", "Context 'c' not found"),
        ("{clusters: [], contexts: []}", "No current context"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_said(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ClusterUnavailable, match="no API server is configured") as caught:
        await ApiServer(str(path)).get(PODS, "p")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_nobody_listens(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig_of(1))
    server = ApiServer(str(path))
    client = server._connected()
    with pytest.raises(ClusterUnavailable, match=r"^get pods: "):
        await server.get(PODS, "p")
    # Another one is made by the next call, and this one keeps nothing.
    assert client.is_closed and server._connected() is not client
    await server.aclose()


async def test_a_client_that_is_replaced_lives_as_long_as_its_watches(tmp_path: Path) -> None:
    async with played_cluster(tmp_path) as cluster:
        server = ApiServer(str(cluster.kubeconfig))
        _, version = await server.list(PODS)
        async with server.watch(PODS, version, 60) as changes:
            first, server._client = server._connected(), None
            cluster.put("pods", {"metadata": {"name": "p"}, "spec": {}, "status": {}})
            assert (await anext(changes)).type == "ADDED"
            await server.get(PODS, "p")
            closed = [first.is_closed]
        assert [*closed, first.is_closed] == [False, True]
        await server.aclose()


async def test_nonsense_is_an_error_of_the_tree(tmp_path: Path) -> None:
    async def nonsense(caller: Caller, heard: Heard) -> bool:
        await caller.say(plain(b"<html>", "502 Bad Gateway" if "p2" in heard.target else "200 OK"))
        return True

    async with played_cluster(tmp_path) as cluster:
        cluster._answer = nonsense  # type: ignore[assignment,method-assign]
        server = ApiServer(str(cluster.kubeconfig))
        with pytest.raises(ClusterUnavailable, match="the API server's answer cannot be read"):
            await server.get(PODS, "p")
        with pytest.raises(ClusterUnavailable, match="get pods: status 502"):
            await server.get(PODS, "p2")
        await server.aclose()


async def test_a_token_is_read_again_when_it_was_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service account's token is renewed by the kubelet long before it ends."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "namespace").write_text("default")
    (account / "token").write_text("old")
    tokens: list[str] = []
    async with played_cluster(tmp_path) as cluster:
        answer = cluster._answer

        async def checked(caller: Caller, heard: Heard) -> None:
            tokens.append(heard.headers["authorization"])
            if tokens[-1] != "Bearer new":
                await caller.say(plain(b"{}", "401 Unauthorized"))
            else:
                await answer(caller, heard)

        cluster._answer = checked  # type: ignore[method-assign]
        cluster.put("pods", {"metadata": {"name": "p"}})
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"tokenFile": str(account / "token")}
        cluster.kubeconfig.write_text(yaml.safe_dump(config))
        server = ApiServer(str(cluster.kubeconfig))
        with pytest.raises(ClusterRefuses, match="the API server does not take the credentials"):
            await server.get(PODS, "p")
        (account / "token").write_text("new")
        assert (await server.get(PODS, "p")).metadata.name == "p"
        await server.aclose()


def test_in_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "namespace").write_text("here")
    (tmp_path / "token").write_text("t")
    monkeypatch.setattr(api_server, "SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    found = api_server._config(None)
    assert (found.cluster.server, found.namespace) == ("https://[fd00::1]:443", "here")
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig_of(7))
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert api_server._config(None).cluster.server == "http://127.0.0.1:7"
