"""`glassformer explore`: models at an address of this computer, until Ctrl-C."""

import errno
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import cause, install

HOST = "127.0.0.1"
FIRST_TEXT = "The train slowly left the station"  # for models without a run
_WAITING = 64  # connections that wait to be accepted


def explore(
    folders: Sequence[Path],
    port: int,
    ready: Callable[[str], None],
    note: Callable[[str], None] = lambda text: None,
) -> None:
    """Serve the models until a signal comes. `ready` gets the address, when it can be opened, and
    `note` what the user should know."""
    try:
        import uvicorn

        from glassformer.server.app import create_app
    except ImportError:
        raise GlassformerError(
            f"explore needs FastAPI and uvicorn. Run {install('glassformer[serve]')}."
        ) from None
    from glassformer.server.explored_models import distinct, first_text, load_models

    with _bound(port) as listener:  # before the models are read, which takes long
        number = listener.getsockname()[1]
        folders, repeated = distinct(folders)
        for each in repeated:
            note(each)
        models = load_models(folders)
        app = create_app(models, number, first_text(folders) or FIRST_TEXT)

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                if self.started:
                    ready(f"http://{HOST}:{number}")

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                app.state.end()  # what is being computed would delay the end
                await super().shutdown(sockets)

        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=100,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=32_768,
        )
        Server(config).run([listener])


def _bound(port: int) -> socket.socket:
    """A socket that listens. Until the server accepts them, connections wait."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # left over from before
        listener.bind((HOST, port))
        listener.listen(_WAITING)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise GlassformerError(
                f"port {port} on {HOST} is in use. Stop the program that uses it, or choose "
                f"another one, such as --port {_free_port(port)}."
            ) from None
        raise UsageError(
            f"port {port} on {HOST} cannot be used: {cause(error)}. Choose another --port."
        ) from None
    return listener


def _free_port(port: int) -> int:
    """A port near this one that is free at the moment."""
    for number in range(port + 1, min(port + 50, 65_536)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
            try:
                tried.bind((HOST, number))
            except OSError:
                continue
            return number
    return 0  # which means any
