"""The transport to NVIDIA Triton over KServe's gRPC protocol: answers are tokens, or text encoded to tokens."""
