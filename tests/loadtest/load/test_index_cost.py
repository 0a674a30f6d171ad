from loadtest.load import index_cost


def test_every_part_of_a_lookup_is_measured() -> None:
    cost = index_cost.index_cost(blocks=(2000,), weighed=20_000)
    assert [(part.holders, part.blocks > 1500) for part in cost.lookups] == [(16, True), (256, True)]
    assert all(part.us > 0 for part in cost.lookups)
    assert cost.hash_and_lookup_us > cost.hash_us / 2
    assert 0 < cost.rss_gb < 1
    assert len(cost.lines()) == 6


def test_the_filled_index_holds_what_it_is_asked_for() -> None:
    index = index_cost.fill(10_000)
    assert len(index) == 10_000
