"""Host groups in virtual time: replicas that share GPUs change their shapes while requests run."""
