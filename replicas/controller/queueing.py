"""How busy servers may be while requests come at random and few of them wait too long."""

from math import erf, exp, inf, pi, sqrt

#: Bisections; more than enough for a load within 0.1 %.
_HALVINGS = 12


def late_share(load: float, servers: float, seconds: float, slack: float) -> float:
    """Return the share of requests that wait for longer than `slack` seconds for one of `servers`.

    `load` is the busy share of the servers, below 1, and `seconds` what one request takes. The probability of waiting
    at all is that of Halfin and Whitt ("Heavy-traffic limits for queues with many exponential servers", 1981), which is
    close to Erlang's for few servers, too, and holds for fractions of servers; waits are exponential.
    """
    beta = (1.0 - load) * sqrt(servers)
    density = exp(-beta * beta / 2) / sqrt(2 * pi)
    below = (1 + erf(beta / sqrt(2))) / 2
    waits = density / (density + beta * below)
    if load < 1.0:
        # Few servers with little to do (Sakasegawa, "An approximation formula Lq = a rho^b / (1 - rho)", 1977).
        waits = min(waits, load ** (sqrt(2 * (servers + 1)) - 1.0))
    return waits * exp(-max(slack, 0.0) * servers * (1.0 - load) / seconds) if seconds > 0 else 0.0


def most_load(servers: float, seconds: float, slack: float, late: float) -> float:
    """Return the highest busy share at which at most the share `late` waits for longer than `slack` seconds.

    More servers may be busier, since they share what comes at random.
    """
    if servers <= 0:
        return 0.0
    if seconds <= 0 or slack == inf:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if late_share(middle, servers, seconds, slack) <= late:
            low = middle
        else:
            high = middle
    return low
