"""How a change is rolled out over the nodes of an instance group."""

from __future__ import annotations

from pydantic import Field

from coterie.manifest.schema.part import Part
from coterie.manifest.schema.words import Flag, InFlight, Seconds, Whole


class Update(Part):
    """How many nodes change at once, which go first, and how long one may take.

    In an instance group, only the fields that are written there replace those of the deployment.
    """

    canaries: Whole = Field(
        1,
        ge=0,
        le=100_000,
        description="How many nodes of each instance group change first, and must be up before the others follow. "
        "A canary that fails stops the rest of its instance group and, with `serial: true`, the groups after it.",
        examples=[1],
    )
    max_in_flight: InFlight = Field(
        1,
        description="How many nodes of an instance group may change at the same time, after the canaries: a number, "
        "or a percentage of its instances (rounded down, at least 1).",
        examples=["20%"],
    )
    canary_watch_s: Seconds = Field(
        300.0, description="How many seconds a canary may take to become up before it counts as failed.", examples=[300]
    )
    update_watch_s: Seconds = Field(
        300.0, description="How many seconds any other node may take to become up.", examples=[300]
    )
    serial: Flag = Field(
        True,
        description="Whether instance groups change one after another, in the order of the manifest, each only if "
        "those before it succeeded, or all at the same time.",
        examples=[True],
    )
