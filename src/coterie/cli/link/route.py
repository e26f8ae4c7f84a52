"""Where the Director is: a URL, or the state folder of the local one."""

from __future__ import annotations

from collections.abc import Callable

from coterie.client.routes import Route, route_of
from coterie.director.process.state_folder import StateFolder
from coterie.settings import Settings

Say = Callable[[str], None]


def route_to(settings: Settings, *, foreground: bool, say: Say) -> Route:
    url: str | None = settings["director"]
    if url is None:
        from coterie.cli.link.local import LocalRoute

        return LocalRoute(StateFolder(settings.state), foreground=foreground, say=say)
    origin = settings.origin("director")
    from coterie.cli.link.token import token_for

    token = None if url.startswith("unix:") else token_for(url, settings)
    return route_of(url, token=token, ca=settings["ca"], plain_http=settings["plain_http"], origin=origin)
