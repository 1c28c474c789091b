"""Tests of the ONNX adapter, file by file."""
