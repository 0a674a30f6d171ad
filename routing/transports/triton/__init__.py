"""NVIDIA Triton over KServe's gRPC protocol: answers of tokens, or of text made into tokens."""
