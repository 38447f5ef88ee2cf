"""ONNX models: a network as one Scan over time, in real numbers or in a chip's integers, run by ONNX Runtime."""
