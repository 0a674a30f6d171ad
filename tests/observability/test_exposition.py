"""Prometheus' text format."""

from observability.exposition import Family, exposition


def test_families() -> None:
    gauge = Family("penstock_things", "gauge", "Things.")
    gauge.add(3, tenant="acme", scope="tenant")
    gauge.add(0.5, tenant='a"b\\c\nd', scope="")
    plain = Family("penstock_all_total", "counter", "All.")
    plain.add(10**12)
    assert exposition([gauge, Family("penstock_none", "gauge", "Left out."), plain]) == (
        "# HELP penstock_things Things.\n"
        "# TYPE penstock_things gauge\n"
        'penstock_things{tenant="acme",scope="tenant"} 3\n'
        'penstock_things{tenant="a\\"b\\\\c\\nd",scope=""} 0.5\n'
        "# HELP penstock_all_total All.\n"
        "# TYPE penstock_all_total counter\n"
        "penstock_all_total 1000000000000\n"
    )
    assert exposition([]) == ""
