"""Which replicas get requests: pure judgements on what sessions, engines and requests say. No I/O but for one wait."""
