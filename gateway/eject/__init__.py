"""A configuration of one machine as values of the Helm chart, and the objects that the chart makes of them.

`chart` is a link to `deploy/helm/penstock`, so that an installed Penstock has it. Only `penstock eject` imports this.
"""
