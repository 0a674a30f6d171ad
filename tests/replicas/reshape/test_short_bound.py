from replicas.reshape.short_bound import short_bound


def test_two_short_ones_have_room_beside_each_other() -> None:
    assert 0 < 2 * short_bound(74_000) < 74_000
    assert short_bound(0) == 0
