"""OpenVINO programs: the ONNX model of a network in float32, or with its products in int8 by NNCF."""
