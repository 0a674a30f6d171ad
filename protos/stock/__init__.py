"""TensorRT-LLM's own gRPC service, both sides: its messages to and from plain values."""
