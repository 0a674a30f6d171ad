"""What an operator of a rival measures beforehand, since its law needs the figures."""

import msgspec


class Benchmark(msgspec.Struct, frozen=True):
    """One replica at its goodput: `rate` requests per second and `in_flight` of them at once."""

    rate: float
    in_flight: float
