"""A run taken away: as one ONNX graph, as one safetensors file, or to a hub."""
