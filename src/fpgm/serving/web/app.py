"""The web page and the HTTP API of a model. Nothing that is sent is kept; nothing asks another host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from PIL import Image
from starlette.requests import ClientDisconnect

from fpgm._version import __version__
from fpgm.runs.site import summarise_statistics
from fpgm.serving.predictor import Predictor
from fpgm.serving.web import answers
from fpgm.serving.web.api_page import api_page
from fpgm.serving.web.limits import Limits, Queue, check_upload, read_body, read_upload
from fpgm.serving.web.messages import About, Alignment, ErrorMessage, Health, Output, Prediction, Prior, Reconstruction
from fpgm.serving.web.security import Guard

if TYPE_CHECKING:  # it needs torch, which a model in ONNX does not
    from fpgm.serving.web.alignment import Aligner

STATIC = Path(__file__).parent / "static"
DESCRIPTION = """Send the bytes of a picture file (JPEG, PNG, TIFF, BMP, WebP, GIF) as the body of a POST request.
File names are neither sent nor used, and nothing is kept.

Whatever is refused is answered with `{"detail": "one sentence"}`: 413 too large, 422 no usable picture or a parameter
out of range or a picture that takes too long to decode, 408 too slow, 429 too many requests of one address at a
time, 503 too many of all.

Not a medical device: for research only, never for diagnosis or treatment."""

T = TypeVar("T")
_log = logging.getLogger("fpgm.serving")
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_PNG: dict[str, Any] = {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}}
_EXAMPLE = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "enum": answers.EXAMPLES}}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    413: {"model": ErrorMessage, "description": "the file has too many bytes or pixels"},
    422: {"model": ErrorMessage, "description": "no usable picture, or a parameter out of range"},
    429: {"model": ErrorMessage, "description": "too many requests of one address at a time"},
    503: {"model": ErrorMessage, "description": "all places are taken; try again"},
}


def create_app(
    predictor: Predictor,
    aligner: Aligner | None = None,
    *,
    note: str = "",
    local: bool = True,
    limits: Limits | None = None,
) -> FastAPI:
    """Return the server of a model.

    Args:
        predictor: the model.
        aligner: alignment shown in the second tab; None without torch.
        note: sentence about the model at the top of the page.
        local: answer to the names of this machine alone; see `Guard`.
        limits: limits of uploads and requests.
    """
    queue = Queue(limits or Limits())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()

    app = FastAPI(
        title="FPGM: HTTP API",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own page loads its scripts from another host
        redoc_url=None,
        redirect_slashes=False,  # it would be made of the request's own words, and fails on bytes that are not text
    )
    app.add_middleware(Guard, local=local)
    app.add_exception_handler(RequestValidationError, _explain)
    _add_pages(app)
    _add_facts(app, predictor, aligner, note, queue)
    _add_predict(app, predictor, queue)
    _add_align(app, aligner, queue)
    return app


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/api", include_in_schema=False)
    async def api() -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi()))

    app.mount("/static", StaticFiles(directory=STATIC))


def _add_facts(app: FastAPI, predictor: Predictor, aligner: Aligner | None, note: str, queue: Queue) -> None:
    card, limits = predictor.engine.card, queue.limits
    about = About(
        version=__version__,
        note=note,
        net=card.net,
        size=card.size,
        classes=list(card.classes),
        training={name: str(value) for name, value in card.training.items()},
        statistics=summarise_statistics(card.statistics),
        identity=predictor.engine.identity,
        threshold=predictor.threshold,
        least_share=card.least_area.share if card.least_area else 0,
        priors=list(aligner.priors) if aligner else [],
        examples=list(answers.EXAMPLES),
        max_bytes=limits.max_bytes,
        max_pixels=limits.max_pixels,
    )

    stalled: dict[int | str, dict[str, Any]] = {503: {"model": Health, "description": "no worker answers"}}

    @app.get("/health", response_description="it works", responses=stalled)
    async def health(response: Response) -> Health:
        """Say that the server works, and how busy it is."""
        if queue.is_stalled():
            response.status_code = 503
        status = "no worker answers" if queue.is_stalled() else "ok"
        return Health(status=status, version=__version__, taken=queue.taken, places=limits.places)

    @app.get("/api/about", response_description="the facts")
    async def tell() -> About:
        """Describe the model, the limits and the examples."""
        return about

    @app.get(
        "/api/examples/{name}.png",
        response_class=Response,
        responses={
            200: {"description": "the picture", **_PNG},
            404: {"model": ErrorMessage, "description": "no such name"},
        },
        openapi_extra={"parameters": [_EXAMPLE]},
    )
    async def example(request: Request) -> Response:
        """Draw an example: a phantom, no patient."""
        name = request.path_params["name"]
        if name not in answers.EXAMPLES:
            raise HTTPException(404, f"There is no example of that name; there are {', '.join(answers.EXAMPLES)}.")
        client = _client(request)
        with queue.request(client), queue.place():
            return Response(await queue.run(client, partial(answers.example, name)), media_type="image/png")


def _add_predict(app: FastAPI, predictor: Predictor, queue: Queue) -> None:
    example = "curl --data-binary @frame.jpg http://127.0.0.1:8000/api/predict"

    @app.post(
        "/api/predict",
        response_model=Prediction,
        responses={200: {"description": "the numbers, or the picture asked for", **_PNG}, **_REFUSALS},
        openapi_extra={**_BODY, "x-example": example},
    )
    async def predict(
        request: Request,
        threshold: Annotated[
            float, Query(gt=0, le=1, description="least foreground probability of the mask")
        ] = predictor.threshold,
        output: Annotated[
            Output,
            Query(description="numbers, or a PNG file of the picture's size: mask 0 or 255, probability 0 … 65535"),
        ] = "json",
        min_area: Annotated[
            int | None, Query(ge=0, description="least pixels of a polyp; the model's own if not given, 0 keeps all")
        ] = None,
        pictures: Annotated[bool, Query(description="put picture and probability map into the JSON")] = False,
    ) -> Response:
        """Find polyps in a picture of any size."""

        def work(picture: Image.Image) -> bytes:
            return answers.predict(predictor, picture, threshold, output, pictures, min_area)

        kind = "application/json" if output == "json" else "image/png"
        return Response(await _compute(request, queue, work), media_type=kind)


def _add_align(app: FastAPI, aligner: Aligner | None, queue: Queue) -> None:
    example = "curl --data-binary @frame.jpg 'http://127.0.0.1:8000/api/align?prior=generic&gamma=0.2'"
    missing: dict[int | str, dict[str, Any]] = {
        501: {"model": ErrorMessage, "description": "torch is not installed where the server runs"}
    }

    @app.post(
        "/api/align",
        response_model=Alignment,
        response_description="the pictures and the profiles",
        responses={**_REFUSALS, **missing},
        openapi_extra={**_BODY, "x-example": example},
    )
    async def align(
        request: Request,
        prior: Annotated[
            Prior | None, Query(description="what to align to; the learnt prior if there is one, else the generic one")
        ] = None,
        gamma: Annotated[float, Query(ge=0, le=1, description="guidance strength of the alignment")] = 0.05,
        reconstruction: Annotated[
            Reconstruction, Query(description="radial is the paper's, ratio keeps the direction of the spectrum")
        ] = "radial",
        cutoff: Annotated[
            float, Query(ge=0, le=2048, description="cutoff radius at 256 x 256 pixels; for low-pass alone")
        ] = 16,
    ) -> Response:
        """Show a picture as the model sees it, before and after its spectrum is aligned."""
        if aligner is None:
            raise HTTPException(501, "Alignment needs torch, which is not installed where this server runs.")
        chosen = prior or aligner.priors[0]
        if chosen not in aligner.priors:
            raise HTTPException(422, f"This model has no {chosen} prior; there are {', '.join(aligner.priors)}.")
        work = partial(_look, aligner, chosen, gamma, reconstruction, cutoff)
        return Response(await _compute(request, queue, work), media_type="application/json")


def _look(
    aligner: Aligner, prior: Prior, gamma: float, reconstruction: Reconstruction, cutoff: float, picture: Image.Image
) -> bytes:
    return answers.align(aligner.look(picture, prior, gamma, reconstruction, cutoff))


async def _compute(request: Request, queue: Queue, work: Callable[[Image.Image], bytes]) -> bytes:
    """Read the upload and compute the answer in a place of the queue; a fault of ours is logged, not shown."""
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise HTTPException(415, "Send the bytes of the file itself, no form: curl --data-binary @frame.jpg URL")
    try:
        client = _client(request)
        with queue.request(client) as count:
            declared = request.headers.get("content-length", "")
            length = int(declared) if declared.isdecimal() else 0
            data = await read_body(request.stream(), queue.limits, count, length)
            check_upload(data)
            with queue.place():
                return await _unless_gone(request, queue.run(client, lambda: work(read_upload(data, queue.limits))))
    except HTTPException:
        raise
    except ClientDisconnect:
        raise HTTPException(400, "The upload was broken off.") from None
    except asyncio.CancelledError:  # uvicorn would write a traceback
        raise HTTPException(503, "The server is being stopped.") from None
    except Exception:  # whatever it is, the server lives on
        _log.exception("a request failed")
        raise HTTPException(500, "The server failed on this picture; its log says why.") from None


def _client(request: Request) -> str:
    return request.client.host if request.client else ""


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Wait for an answer as long as its client does."""

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answer, gone = asyncio.ensure_future(work), asyncio.ensure_future(leave())
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


async def _explain(request: Request, error: Exception) -> JSONResponse:
    """Say in one sentence which parameters are out of range."""
    assert isinstance(error, RequestValidationError)
    lines = [f"{entry['loc'][-1]}: {entry['msg']}" for entry in error.errors()]
    return JSONResponse({"detail": f"{'; '.join(lines)}."}, 422)
