from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from gateway.caching.byte_lru import ByteLru

KEYS = st.sampled_from("abcdef")


@given(steps=st.lists(st.tuples(KEYS, st.none() | st.integers(0, 12)), max_size=60))
def test_it_keeps_what_was_used_last_within_its_bound(steps: list[tuple[str, int | None]]) -> None:
    cache: ByteLru[str, bytes] = ByteLru(10, len)
    model: OrderedDict[str, bytes] = OrderedDict()
    for key, size in steps:
        if size is None:
            assert cache.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
        elif size <= 10:
            model.pop(key, None)
            model[key] = bytes(size)
            cache.put(key, bytes(size))
            while sum(map(len, model.values())) > 10:
                model.popitem(last=False)
        else:
            cache.put(key, bytes(size))
        assert cache.bytes == sum(map(len, model.values())) <= 10
    assert {key: cache.get(key) for key in "abcdef"} == {key: model.get(key) for key in "abcdef"}
