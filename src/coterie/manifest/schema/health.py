"""How the conductor decides that a node is up."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from coterie.manifest.schema.part import Part
from coterie.manifest.schema.words import Seconds, TypeWords, Whole, refuse


def _path(value: Any) -> str:
    if isinstance(value, str) and value.startswith("/") and value.isprintable() and " " not in value:
        return value
    raise refuse("it is not the path of a URL", "begin it with '/', without blanks, as in /healthz")


class Health(Part):
    """A check of each node, run by the conductor at a deploy and with every look. Without it, a node is up when its VM
    runs."""

    kind: Literal["none", "tcp", "http"] = Field(
        "none",
        description="`none`: the VM runs in the cloud. `tcp`: the port also accepts connections. "
        "`http`: a GET of the path also answers with the expected status.",
        examples=["http"],
    )
    port: Whole | None = Field(
        None, ge=1, le=65_535, description="The port to connect to; needed for `tcp` and `http`.", examples=[8080]
    )
    path: Annotated[str, PlainValidator(_path), TypeWords("text")] = Field(
        "/", description="The path to get, for `http`.", examples=["/healthz"]
    )
    expect: Whole = Field(200, ge=100, le=599, description="The status that means healthy, for `http`.", examples=[200])
    interval_s: Seconds = Field(2.0, description="Seconds between two attempts.", examples=[2])
    timeout_s: Seconds = Field(5.0, description="Seconds that one attempt may take.", examples=[5])
    recreate_after: Whole = Field(
        3,
        ge=0,
        description="How many periodic looks in a row may find the check failing before `resurrection`, or the next "
        "deploy, recreates the node; 0: that never recreates it.",
        examples=[5],
    )
