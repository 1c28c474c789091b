"""A driver of onnxruntime's C API, for map types that its Python interface cannot pass.

From a dict onnxruntime's Python interface always builds a map of float values. The C API takes a
map as two tensors, hence every type of map, and repeated keys. The functions are reached through
their places in ``struct OrtApi``, which only ever grows at its end.
"""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Place in struct OrtApi, whether a status is returned, argument types.
_FUNCTIONS: dict[str, tuple[int, bool, tuple[Any, ...]]] = {
    "GetErrorCode": (1, False, (c_void_p,)),
    "GetErrorMessage": (2, False, (c_void_p,)),
    "CreateEnv": (3, True, (c_int, c_char_p, c_void_p)),
    "CreateSessionFromArray": (8, True, (c_void_p, c_char_p, c_size_t, c_void_p, c_void_p)),
    "Run": (
        9,
        True,
        (
            c_void_p,
            c_void_p,
            c_void_p,
            c_void_p,
            c_size_t,
            c_void_p,
            c_size_t,
            c_void_p,
        ),
    ),
    "CreateSessionOptions": (10, True, (c_void_p,)),
    "SetSessionLogSeverityLevel": (22, True, (c_void_p, c_int)),
    "SetIntraOpNumThreads": (24, True, (c_void_p, c_int)),
    "CreateTensorAsOrtValue": (48, True, (c_void_p, c_void_p, c_size_t, c_int, c_void_p)),
    "GetTensorMutableData": (51, True, (c_void_p, c_void_p)),
    "GetStringTensorDataLength": (53, True, (c_void_p, c_void_p)),
    "GetStringTensorContent": (54, True, (c_void_p, c_void_p, c_size_t, c_void_p, c_size_t)),
    "GetTensorElementType": (60, True, (c_void_p, c_void_p)),
    "GetDimensionsCount": (61, True, (c_void_p, c_void_p)),
    "GetDimensions": (62, True, (c_void_p, c_void_p, c_size_t)),
    "GetTensorTypeAndShape": (65, True, (c_void_p, c_void_p)),
    "GetAllocatorWithDefaultOptions": (78, True, (c_void_p,)),
    "CreateValue": (82, True, (c_void_p, c_size_t, c_int, c_void_p)),
    "ReleaseStatus": (93, False, (c_void_p,)),
    "ReleaseSession": (95, False, (c_void_p,)),
    "ReleaseValue": (96, False, (c_void_p,)),
    "ReleaseTensorTypeAndShapeInfo": (99, False, (c_void_p,)),
    "GetResizedStringTensorElementBuffer": (252, True, (c_void_p, c_size_t, c_size_t, c_void_p)),
}
# Linux, macOS, Windows.
_LIBRARIES = ("libonnxruntime.so*", "libonnxruntime.*dylib", "onnxruntime.dll")
_RESULTS = {"GetErrorCode": c_int, "GetErrorMessage": c_char_p}

_ELEMENT_TYPES = {"float": 1, "int64": 7, "string": 8, "double": 11}
_TYPE_NAMES = {number: name for name, number in _ELEMENT_TYPES.items()}
_DTYPES = {"float": np.float32, "int64": np.int64, "double": np.float64}
_CAST_TO = {"TO_FLOAT": "float", "TO_INT64": "int64", "TO_STRING": "string"}
_SILENT = 4
_ONNX_TYPE_MAP = 3


class OrtError(Exception):
    """A refusal by onnxruntime: when ("session", "map" or "run"), its code and its message."""

    def __init__(self, stage: str, code: int, message: str) -> None:
        super().__init__(stage, code, message)
        self.stage, self.code, self.message = stage, code, message


class MapRunner:
    """Runs models of one CastMap or DictVectorizer node; keeps one session for each model."""

    def __init__(self) -> None:
        api = self._load()
        self._calls = {
            name: ctypes.CFUNCTYPE(_RESULTS.get(name, c_void_p if checked else None), *arguments)(
                api[place]
            )
            for name, (place, checked, arguments) in _FUNCTIONS.items()
        }
        self._stage = "session"
        self._sessions: dict[tuple[Any, ...], c_void_p] = {}
        self._environment = self._new("CreateEnv", _SILENT, b"nbmapops")
        self._allocator = self._new("GetAllocatorWithDefaultOptions")
        self._options = self._new("CreateSessionOptions")
        self._check("SetSessionLogSeverityLevel", self._options, _SILENT)
        self._check("SetIntraOpNumThreads", self._options, 1)

    def run(
        self,
        operator: str,
        attributes: dict[str, Any],
        keys: tuple[str, Any],
        values: tuple[str, Any],
    ) -> tuple[str, tuple[int, ...], NDArray[Any]]:
        """Run one map; keys and values are a type name of ONNX and a sequence each.

        Texts go in as str or bytes; they come out as bytes, in an object array. The answer is
        type, shape and flat content, or an `OrtError`.
        """
        session = self._session(operator, attributes, keys[0], values[0])
        self._stage = "map"
        held = []
        try:
            held.append(self._tensor(*keys))
            held.append(self._tensor(*values))
            pair = (c_void_p * 2)(held[0], held[1])
            held.append(self._new("CreateValue", pair, 2, _ONNX_TYPE_MAP))
            self._stage = "run"
            outputs = (c_void_p * 1)(None)
            self._check(
                "Run",
                session,
                None,
                (c_char_p * 1)(b"X"),
                (c_void_p * 1)(held[2]),
                1,
                (c_char_p * 1)(b"Y"),
                1,
                outputs,
            )
            held.append(c_void_p(outputs[0]))
            return self._content(held[3])
        finally:
            for value in held:
                self._calls["ReleaseValue"](value)

    def close(self) -> None:
        """Release the sessions."""
        for session in self._sessions.values():
            self._calls["ReleaseSession"](session)
        self._sessions.clear()

    @staticmethod
    def _load() -> Any:
        found = importlib.util.find_spec("onnxruntime")
        assert found is not None
        assert found.origin is not None
        folder = Path(found.origin).parent / "capi"
        paths = [path for name in _LIBRARIES for path in folder.glob(name)]
        if not paths:
            pytest.skip("this onnxruntime has no library with a C API")
        library = ctypes.CDLL(str(paths[0]))
        library.OrtGetApiBase.restype = POINTER(c_void_p)
        base = library.OrtGetApiBase()
        version = ctypes.CFUNCTYPE(c_char_p)(base[1])().decode()
        get_api = ctypes.CFUNCTYPE(POINTER(c_void_p), c_uint32)(base[0])
        return get_api(int(version.split(".")[1]))

    def _check(self, name: str, *arguments: Any) -> None:
        status = self._calls[name](*arguments)
        if status:
            code = self._calls["GetErrorCode"](status)
            message = self._calls["GetErrorMessage"](status).decode("utf-8", "replace")
            self._calls["ReleaseStatus"](status)
            raise OrtError(self._stage, code, message)

    def _new(self, name: str, *arguments: Any) -> c_void_p:
        handle = c_void_p()
        self._check(name, *arguments, byref(handle))
        return handle

    def _session(
        self, operator: str, attributes: dict[str, Any], key_type: str, value_type: str
    ) -> c_void_p:
        model = operator, repr(sorted(attributes.items())), key_type, value_type
        if model not in self._sessions:
            self._stage = "session"
            encoded = _model(operator, attributes, key_type, value_type)
            self._sessions[model] = self._new(
                "CreateSessionFromArray", self._environment, encoded, len(encoded), self._options
            )
        return self._sessions[model]

    def _tensor(self, type_name: str, content: Any) -> c_void_p:
        size = len(content)
        tensor = self._new(
            "CreateTensorAsOrtValue",
            self._allocator,
            (c_int64 * 1)(size),
            1,
            _ELEMENT_TYPES[type_name],
        )
        if type_name == "string":
            self._write_texts(tensor, content)
        elif size:
            numbers = np.ascontiguousarray(content, _DTYPES[type_name])
            data = self._new("GetTensorMutableData", tensor)
            ctypes.memmove(data, numbers.ctypes.data, numbers.nbytes)
        return tensor

    def _write_texts(self, tensor: c_void_p, texts: Any) -> None:
        buffer = c_void_p()
        place = byref(buffer)
        for position, text in enumerate(texts):
            data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
            self._check("GetResizedStringTensorElementBuffer", tensor, position, len(data), place)
            ctypes.memmove(buffer, data, len(data))

    def _content(self, tensor: c_void_p) -> tuple[str, tuple[int, ...], NDArray[Any]]:
        info = self._new("GetTensorTypeAndShape", tensor)
        try:
            element, rank = c_int(), c_size_t()
            self._check("GetTensorElementType", info, byref(element))
            self._check("GetDimensionsCount", info, byref(rank))
            dimensions = (c_int64 * rank.value)()
            self._check("GetDimensions", info, dimensions, rank.value)
        finally:
            self._calls["ReleaseTensorTypeAndShapeInfo"](info)
        shape = tuple(dimensions)
        size = int(np.prod(shape, dtype=np.int64))
        type_name = _TYPE_NAMES[element.value]
        if type_name == "string":
            return type_name, shape, self._read_texts(tensor, size)
        result = np.empty(size, _DTYPES[type_name])
        if size:
            data = self._new("GetTensorMutableData", tensor)
            ctypes.memmove(result.ctypes.data, data, result.nbytes)
        return type_name, shape, result

    def _read_texts(self, tensor: c_void_p, size: int) -> NDArray[Any]:
        result = np.empty(size, object)
        if size:
            length = c_size_t()
            self._check("GetStringTensorDataLength", tensor, byref(length))
            data = ctypes.create_string_buffer(length.value + 1)
            starts = (c_size_t * size)()
            self._check("GetStringTensorContent", tensor, data, length.value, starts, size)
            raw, ends = data.raw, [*starts[1:], length.value]
            result[:] = [raw[start:end] for start, end in zip(starts, ends, strict=True)]
        return result


def _model(operator: str, attributes: dict[str, Any], key_type: str, value_type: str) -> bytes:
    from onnx import AttributeProto, TensorProto, helper

    elements = {
        "float": TensorProto.FLOAT,
        "int64": TensorProto.INT64,
        "string": TensorProto.STRING,
        "double": TensorProto.DOUBLE,
    }
    # An empty list does not say what it is a list of.
    lists = {
        "int64_vocabulary": AttributeProto.INTS,
        "string_vocabulary": AttributeProto.STRINGS,
    }
    result = value_type
    if operator == "CastMap":
        result = _CAST_TO.get(attributes.get("cast_to", "TO_FLOAT"), "float")
    content = helper.make_tensor_type_proto(elements[value_type], [])
    taken = helper.make_value_info("X", helper.make_map_type_proto(elements[key_type], content))
    given = helper.make_tensor_value_info("Y", elements[result], None)
    node = helper.make_node(operator, ["X"], ["Y"], domain="ai.onnx.ml")
    node.attribute.extend(
        helper.make_attribute(name, value, attr_type=lists.get(name))
        for name, value in attributes.items()
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    graph = helper.make_graph([node], "map", [taken], [given])
    encoded: bytes = helper.make_model(
        graph, opset_imports=opsets, ir_version=8
    ).SerializeToString()
    return encoded
