"""Serve an ONNX model whose input is maps: a list of maps in JSON comes in, outputs go out.

Try it (the model has one input, a map):

    pip install 'nbmapops[onnx]' starlette uvicorn
    python serve.py model.onnx 8000
    curl http://127.0.0.1:8000/run -d '[{"a": 1.5}, {"b": 2, "c": 0.25}]'

Bad input is answered with status 400, naming map and key. Limit the size of requests in a proxy.
"""

import json
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from nbmapops.onnx import MapSession


def application(model: str) -> Starlette:
    """Return the application that serves the model of this file."""
    session = MapSession(model, semantics="strict")  # unknown and repeated keys are errors
    (given,) = session.get_inputs()
    key = int if given.type.startswith("map(int64") else str

    def pairs(entries: list[tuple[str, object]]) -> list[tuple[int | str, object]]:
        return [(key(name), value) for name, value in entries]  # a dict would drop repeated keys

    def maps_of(body: bytes) -> list[object]:
        maps = json.loads(body, object_pairs_hook=pairs)
        if not isinstance(maps, list) or not all(isinstance(one, list) for one in maps):
            raise TypeError("the request must be a list of maps: [{...}, ...]")
        return maps

    def answer(body: bytes) -> JSONResponse:
        try:
            outputs = session.run(None, {given.name: maps_of(body)})
            rows = [output if isinstance(output, list) else output.tolist() for output in outputs]
            return JSONResponse(dict(zip(session.output_names, rows, strict=True)))
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    async def run(request: Request) -> JSONResponse:
        return await run_in_threadpool(answer, await request.body())

    async def describe(_: Request) -> JSONResponse:
        described = session.get_inputs() + session.get_outputs()
        return JSONResponse({value.name: value.type for value in described})

    return Starlette(routes=[Route("/", describe), Route("/run", run, methods=["POST"])])


if __name__ == "__main__":
    uvicorn.run(application(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]))
