"""Links between replicas whose addresses have TLS on both sides."""

from functools import partial
from pathlib import Path

from protos.join import Join, JoinKind
from protos.reshape import Span
from protos.types import Shape
from replicas.groups.group_member import GroupOptions
from replicas.groups.group_tls import group_credentials
from replicas.groups.link import Link, open_link
from replicas.replica_server import ReplicaServer
from tests.certificates import Authority, server_files
from tests.harness import engine_of
from tests.reshaping import GROUP


async def test_members_show_each_other_their_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = server_files(authority.signed(), authority.ca)
    assert files.client_ca is not None
    make = partial(group_credentials, files.certificate, files.key, files.client_ca)
    group = GroupOptions(GROUP, 2, Span(0, 1), None, make)
    server = ReplicaServer(engine_of(shape=Shape(1)), tls=files, group=group)
    address = await server.start("127.0.0.1:0")
    heard: list[Join] = []
    link = Link(lambda: Join(JoinKind.BEAT), heard.append)
    link.send(Join(JoinKind.HELLO, 7, group=GROUP, gpu=1, epoch=2))
    await open_link(link, address, make())
    assert [message.failure for message in heard] == ["change 7 is not under way here"]
    await server.close()


def test_without_files_there_is_no_tls() -> None:
    assert group_credentials(None, None, None) is None
