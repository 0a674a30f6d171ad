"""The steps that a replica goes through, which launchers see from outside and replicas tell of themselves."""

import enum


class LaunchStep(enum.Enum):
    """The steps of a replica's life, in their order (DeepFlow, Table 2).

    `allocate`: a machine, a pod or GPUs are sought (Scaler-Pre). `process`: the process begins, imports, initialises
    devices (TE-Pre-Load). `load`: weights are loaded (TE-Load). `warm_up`: it prepares to serve (TE-Post-Load).
    `ready`: it serves (Scaler-Post is what a gateway takes to notice). `stopping`: it has been told to end. `failed`:
    it has ended by itself or could not be started; a launcher shows it until `stop` is called for it.
    """

    ALLOCATE = "allocate"
    PROCESS = "process"
    LOAD = "load"
    WARM_UP = "warm_up"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"
