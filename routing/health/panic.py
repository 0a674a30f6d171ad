"""How many replicas may be left alone because others do better."""


def may_eject(connected: int, ejected: int) -> bool:
    """Whether one more may go, of so many with a session (the ejected ones included).

    At most half: where more than that seem to be worse than the others, something else is wrong, such as the
    requests, and the few that would be left could not carry the load of all.
    """
    return 2 * (ejected + 1) <= connected
