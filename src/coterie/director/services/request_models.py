"""What a caller may wish for: the bodies of plans and deploys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from coterie.director.http.reply import Word

_LARGEST = 4 * 2**20


class DeployWish(BaseModel):
    """A manifest, and optionally the cloud config to go with it and the plan that was confirmed."""

    model_config = ConfigDict(extra="forbid")
    manifest: str = Field(max_length=_LARGEST, description="YAML")
    manifest_file: str = Field("manifest", max_length=1000, description="the name that mistakes are reported under")
    cloud_config: str | None = Field(None, max_length=_LARGEST, description="YAML; null: the one that is set")
    config_file: str = Field("cloud-config", max_length=1000)
    recreate: bool = Field(False, description="recreate VMs although nothing about them changed")
    nodes: list[Word] = Field(default_factory=list, max_length=10_000, description="only these nodes, as group/index")
    plan: str | None = Field(None, max_length=255, description="id of the confirmed plan; another one now → 412")
    team: str | None = Field(
        None, max_length=64, pattern=r"^[A-Za-z0-9_.@-]+$", description="team that the deployment belongs to"
    )


class PlanWish(BaseModel):
    """A deploy (with `manifest`) or a delete (with `deployment` and `delete`) to look at beforehand."""

    model_config = ConfigDict(extra="forbid")
    deployment: Word | None = None
    manifest: str | None = Field(None, max_length=_LARGEST, description="YAML")
    manifest_file: str = Field("manifest", max_length=1000)
    cloud_config: str | None = Field(None, max_length=_LARGEST, description="YAML; null: the one that is set")
    config_file: str = Field("cloud-config", max_length=1000)
    delete: bool = False
    delete_disks: bool = False
    recreate: bool = False
    nodes: list[Word] = Field(default_factory=list, max_length=10_000)
