"""The panic threshold: how many replicas may be ejected because others do better."""


def may_eject(connected: int, ejected: int) -> bool:
    """Whether one more replica may be ejected, of `connected` ones (the ejected included).

    At most half: where more seem worse than the others, something else is wrong, such as the requests, and the few
    left could not carry the load of all.
    """
    return 2 * (ejected + 1) <= connected
