import pytest

from gateway.config.store import ClusterAddress, cluster_address, is_cluster


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis+cluster://h", ClusterAddress((("h", 6379),), None, None, False)),
        ("redis+cluster://h:1,10.0.0.2:2/", ClusterAddress((("h", 1), ("10.0.0.2", 2)), None, None, False)),
        ("rediss+cluster://u:p%40w@h:1,[::1]:2", ClusterAddress((("h", 1), ("::1", 2)), "u", "p@w", True)),
        ("redis+cluster://:secret@h", ClusterAddress((("h", 6379),), None, "secret", False)),
    ],
)
def test_the_nodes_of_an_address(url: str, expected: ClusterAddress) -> None:
    assert is_cluster(url)
    assert cluster_address(url) == expected


@pytest.mark.parametrize(
    "rest", ["", "h:x", "h:0", "h:70000", "h,", ",h", ":1", "h:1/3", "h?a=b", "h#a", "secret@h:x", "[::1"]
)
def test_what_is_no_address_is_refused_without_showing_it(rest: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        cluster_address(f"redis+cluster://{rest}")
    assert "secret" not in str(caught.value)


def test_other_addresses() -> None:
    assert not any(is_cluster(url) for url in ("redis://h", "rediss://h", "unix:///s", "embedded"))
