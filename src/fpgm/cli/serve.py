"""``fpgm serve``: a model as a web page and an HTTP API."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from fpgm.serving.web.alignment import Aligner

DEMO = Path("demo")
NOTE = (
    "This model was trained on a few drawn phantoms of {size} x {size} pixels. It shows how the page works "
    "and says nothing about real colonoscopy."
)


def serve(run: Path | None = None, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Show a model as a web page, with an HTTP API for programs at /api.

    Uploaded images are not stored, and the page loads nothing from other hosts. There is no password and no encryption:
    whoever can reach the port can use the model.

    Args:
        run: folder of a run, its model folder, or a .onnx file; if not given, the demo's model in ./demo, which is
            trained first if it is missing.
        host: address to listen on; by default only this machine can open the page, 0.0.0.0 lets others in.
        port: port to listen on; 0 takes a free one.
    """
    from fpgm.cli.terminal import console

    for module in ("fastapi", "uvicorn"):
        if find_spec(module) is None:
            raise ValueError(f"{module} is not installed, which serving needs: pip install 'fpgm[web]'")
    import uvicorn

    from fpgm.data.sandbox import stop_decoders
    from fpgm.serving.predictor import load_predictor
    from fpgm.serving.web.app import create_app
    from fpgm.serving.web.protocol import GuardedProtocol
    from fpgm.serving.web.security import is_local

    output = console()
    listener = _listen(host, port)  # before a training: a port that is taken should not cost a minute
    with listener:
        folder = run or _demo(output)
        predictor = load_predictor(folder)
        size = predictor.engine.card.size
        note = NOTE.format(size=size) if run is None else ""
        app = create_app(predictor, _aligner(folder, size), note=note, local=is_local(host))
        listener.listen()  # so that whoever reads the address can connect
        _announce(output, folder, host, listener.getsockname()[1], predictor.engine.name)
        settings = uvicorn.Config(app, http=GuardedProtocol, log_level="warning", timeout_graceful_shutdown=3)
        try:
            uvicorn.Server(settings).run(sockets=[listener])
        except KeyboardInterrupt:
            output.print("stopped")
        finally:
            stop_decoders()  # no picture under way may hold the end back


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address, or say why it cannot be."""
    if not 0 <= port < 2**16:
        raise ValueError(f"--port {port} is not a port: give a number from 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, UnicodeError) as error:  # UnicodeError: not a host name, such as a..b
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot listen on {host} port {port}: {reason}; try another --port or --host") from None
    return listener


def _demo(output: Console) -> Path:
    """Return the run of `fpgm demo`, training it first if it is missing."""
    from fpgm.cli import demo

    run = DEMO / demo.OURS
    if not (run / "model").is_dir():
        output.print(f"no run given: training the demo's model in {run}, once; this takes a minute or two")
        demo.draw_store(DEMO)
        cells = [
            cell for cell in demo.make_cells(DEMO, DEMO / "store", demo.ITERATIONS, 0) if cell.variant.name == demo.OURS
        ]
        if not demo.train_all(cells, output):
            raise KeyboardInterrupt
    return run


def _aligner(folder: Path, size: int) -> Aligner | None:
    """Return the part that shows alignments, or None if torch is missing."""
    if find_spec("torch") is None:
        return None
    from fpgm.serving.web.alignment import Aligner

    return Aligner.of_run(folder, size)


def _announce(output: Console, folder: Path, host: str, port: int, engine: str) -> None:
    from fpgm.serving.web.security import is_local

    shown = f"[{host}]" if ":" in host else host
    by = "" if engine == "torch" else f", computed by {engine}"
    output.print(f"{folder} is at http://{shown}:{port}{by} (Ctrl-C ends it)", highlight=False, markup=False)
    if not is_local(host):
        output.print("whoever can reach this machine can use it: there is no password and no encryption")
