from routing.transports.shared_parts import SharedParts


def test_a_part_is_made_once_and_kept_until_its_last_user_has_gone() -> None:
    shared, made = SharedParts(), iter("ab")
    assert shared.take(1, lambda: next(made)) == shared.take(1, lambda: next(made)) == "a"
    assert [shared.give_back(1), shared.give_back(1)] == [False, True]
    assert shared.take(1, lambda: next(made)) == "b"
