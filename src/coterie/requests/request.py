"""What a user requests: a deployment as its manifest describes it, or its deletion; and the check of both documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coterie.cpi.contract import Capabilities
from coterie.cpi.load import driver_names, forms_of
from coterie.errors import CoterieError, InvalidDocument, NotFound, UsageError
from coterie.flows.look import Look
from coterie.ledger.rows import clouds, deployments
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger
from coterie.manifest import (
    CloudConfig,
    Deployment,
    InstanceGroupSpec,
    Loaded,
    check,
    invalid,
    load_both,
    load_cloud_config,
    load_deployment,
    resolve,
)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """`manifest` None: of a deletion. `cloud_config` None: the one in force. `nodes`: make these anew. `reuse_disks`:
    new nodes take the kept disks of nodes of their names. `meltdown`: so many nodes whose health check fails say
    nothing about the nodes."""

    deployment: str | None = None
    manifest: str | None = None
    manifest_file: str = "manifest"
    cloud_config: str | None = None
    config_file: str = "cloud config"
    delete: bool = False
    delete_disks: bool = False
    recreate: bool = False
    nodes: tuple[str, ...] = ()
    reuse_disks: bool = False
    auto_anti_affinity: bool = False
    meltdown: Look = field(default_factory=Look)


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request whose documents were read without mistakes. `deployment` None: the deployment shall be deleted."""

    name: str
    manifest: str
    config_text: str
    config: Loaded[CloudConfig]
    deployment: Loaded[Deployment] | None
    auto_anti_affinity: bool

    @property
    def clouds(self) -> dict[str, CloudRow]:
        return cloud_rows(self.config.value)

    def shared_security_groups(self) -> frozenset[tuple[str, str]]:
        """(cloud, name) of those that every team may adopt."""
        return frozenset(
            (cloud.name, name) for cloud in self.config.value.clouds for name in cloud.shared_security_groups
        )

    def groups(self) -> list[InstanceGroupSpec]:
        if self.deployment is None:
            return []
        return resolve(self.deployment.value, self.config.value, auto_anti_affinity=self.auto_anti_affinity)

    def check(self, capabilities: Mapping[str, Capabilities]) -> None:
        """Refuse policies that the clouds cannot keep, with their lines in the manifest."""
        if self.deployment is None:
            return
        mistakes = check(self.deployment, self.config, capabilities, auto_anti_affinity=self.auto_anti_affinity)
        if mistakes:
            raise invalid(mistakes)


def read(ledger: Ledger, request: PlanRequest) -> CheckedRequest:
    with ledger.read() as tx:
        in_force = clouds.config(tx)
        present = deployments.get(tx, request.deployment) if request.deployment else None
    config_text = request.cloud_config if request.cloud_config is not None else in_force.body if in_force else None
    if config_text is None:
        raise _missing_config_error(request)
    if request.delete:
        return _end(request, present, config_text)
    if request.manifest is None:
        raise UsageError("a deployment needs a manifest", remedy="give its manifest: the stored one has no secrets")
    return _read_both(request, request.manifest, config_text)


def _missing_config_error(request: PlanRequest) -> CoterieError:
    """The error for a missing cloud config, with the mistakes in the manifest if there are any."""
    what, remedy = (
        "no cloud config is set",
        "give one with --cloud-config FILE, or set it first: coterie clouds set FILE",
    )
    try:
        if request.manifest is not None:
            load_deployment(request.manifest, request.manifest_file)
    except InvalidDocument as error:
        missing = {"file": None, "line": None, "column": None, "field": "", "what": what, "remedy": remedy}
        mistakes = [*error.details["mistakes"], missing]
        return InvalidDocument(f"{error.what}, and {what}", remedy=error.remedy, details={"mistakes": mistakes})
    return UsageError(what, remedy=remedy)


def cloud_rows(config: CloudConfig) -> dict[str, CloudRow]:
    return {
        cloud.name: CloudRow(
            cloud.name,
            cloud.driver,
            dict(cloud.properties),
            cloud.conductor_groups[0],
            cloud.conductor_groups[1:],
        )
        for cloud in config.clouds
    }


def az_groups(config: CloudConfig) -> dict[str, str | None]:
    """The conductor group of each az; None: its cloud's."""
    return {az.name: None if az.conductor_group is None else az.conductor_group.lower() for az in config.azs}


def _end(request: PlanRequest, present: deployments.DeploymentRow | None, config_text: str) -> CheckedRequest:
    if present is None:
        raise NotFound(f"there is no deployment {request.deployment}", remedy="see `coterie deployments`")
    config = load_cloud_config(config_text, request.config_file, drivers=driver_names())
    return CheckedRequest(present.name, present.manifest, config_text, config, None, request.auto_anti_affinity)


def _read_both(request: PlanRequest, manifest: str, config_text: str) -> CheckedRequest:
    deployment, config = load_both(
        (manifest, request.manifest_file),
        (config_text, request.config_file),
        drivers=driver_names(),
        forms_of=forms_of,
        in_force=request.cloud_config is None,
        auto_anti_affinity=request.auto_anti_affinity,
    )
    name = deployment.value.name
    if request.deployment and request.deployment != name:
        raise UsageError(
            f"the manifest is of deployment {name}, not {request.deployment}",
            remedy="name the deployment that the manifest names",
        )
    return CheckedRequest(name, manifest, config_text, config, deployment, request.auto_anti_affinity)
