from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from gateway.caching.lru import Lru

steps = st.lists(st.tuples(st.sampled_from(["get", "put", "discard"]), st.integers(0, 6)))


@given(size=st.integers(1, 4), steps=steps)
def test_what_was_used_longest_ago_goes_first(size: int, steps: list[tuple[str, int]]) -> None:
    lru: Lru[int, int] = Lru(size)
    model: OrderedDict[int, int] = OrderedDict()
    for number, (what, key) in enumerate(steps):
        match what:
            case "put":
                lru.put(key, number)
                model.pop(key, None)
                model[key] = number
                while len(model) > size:
                    model.popitem(last=False)
            case "get":
                assert lru.get(key) == model.get(key)
                if key in model:
                    model.move_to_end(key)
            case "discard":
                lru.discard(key)
                model.pop(key, None)
        assert list(lru.items()) == list(model.items())
    lru.clear()
    assert not lru.items()
