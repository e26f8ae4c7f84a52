"""What the API shows and takes. Generated from the OpenAPI document by
`python -m coterie.cli.client_code src/coterie/cli/link`. Do not edit."""

from __future__ import annotations

from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar

T = TypeVar("T")


class Listing(TypedDict, Generic[T]):
    """One page, or all pages as one. `next` is the cursor of the following one."""

    items: list[T]
    next: str | None


class Accepted(TypedDict):
    """Work was started; follow it at `Location`."""

    task_id: int


class ActionBody(TypedDict):
    """Work on nodes by their names, without a manifest. `attach` gives one node a kept disk in the place of
    its own."""

    action: Literal["recreate", "restart", "stop", "start", "attach"]
    nodes: list[str]
    max_in_flight: NotRequired[int]
    disk: NotRequired[str | None]
    plan: NotRequired[str | None]


class ApplyBody(TypedDict):
    """The plan that was reviewed."""

    plan: str
    items: NotRequired[list[dict[str, Any]] | None]


class Change(TypedDict):
    action: str
    kind: str
    subject: str
    reason: str
    destructive: bool


class Cleanup(TypedDict):
    id: int
    state: str
    options: dict[str, Any]
    requested_by: str | None
    survey_task: int | None
    sweep_task: int | None
    created_at: str


class CleanupDetail(TypedDict):
    id: int
    state: str
    options: dict[str, Any]
    requested_by: str | None
    survey_task: int | None
    sweep_task: int | None
    created_at: str
    surveys: list[Any]
    outcomes: dict[str, int]
    plan: Any


class Cloud(TypedDict):
    name: str
    driver: str
    conductor_group: NotRequired[str]
    other_conductor_groups: NotRequired[list[str]]
    properties: dict[str, Any]
    nodes: int
    pinned_to: NotRequired[str | None]
    alarms: NotRequired[list[dict[str, Any]]]


class CloudChange(TypedDict):
    """What of a cloud can be set by itself; the rest stands in the cloud config."""

    conductor_group: str


class CloudConfig(TypedDict):
    id: int
    text: str
    hash: str
    created_at: str


class CloudDetail(TypedDict):
    name: str
    driver: str
    conductor_group: NotRequired[str]
    other_conductor_groups: NotRequired[list[str]]
    properties: dict[str, Any]
    nodes: int
    pinned_to: NotRequired[str | None]
    alarms: NotRequired[list[dict[str, Any]]]
    capabilities: dict[str, Any] | None
    facts: dict[str, Fact]


class CloudObject(TypedDict):
    intent: str
    kind: str
    cloud: str
    az: str | None
    state: str
    cid: str | None
    deployment: str | None
    node: str | None
    ref: str | None
    size_mb: int
    properties: dict[str, Any] | None
    tombstone: bool
    created_at: str
    doubt_since: str | None
    ended_at: str | None


class Conductor(TypedDict):
    name: str
    conductor_group: NotRequired[str | None]
    drivers: list[str]
    release: str
    speaks: str | None
    ring: str
    weight: float
    draining: bool
    lease_s: float
    running: int
    silent_s: float
    started_at: str
    heartbeat: str


class ConductorGroup(TypedDict):
    name: str
    conductors: list[str]
    stand_ins: list[str]
    drivers: list[str]
    clouds: list[str]
    nodes: int
    orphans: int


class Config(TypedDict):
    settings: list[Value]
    files: list[SettingsFile]


class DeployBody(TypedDict):
    """Body of a deploy: a manifest, and optionally the cloud config to go with it and the plan that was
    confirmed."""

    manifest: str
    manifest_file: NotRequired[str]
    cloud_config: NotRequired[str | None]
    config_file: NotRequired[str]
    recreate: NotRequired[bool]
    nodes: NotRequired[list[str]]
    reuse_disks: NotRequired[bool]
    plan: NotRequired[str | None]
    team: NotRequired[str | None]


class Deployment(TypedDict):
    name: str
    serial: int
    resurrection: bool
    nodes: dict[str, int]
    task: int | None
    unfinished_task: NotRequired[int | None]
    team: str | None
    created_at: str
    updated_at: str


class DeploymentChange(TypedDict):
    """What of a deployment can be set without deploying it. A team of null: no team."""

    team: str | None


class DirectorName(TypedDict):
    name: str
    uuid: str


class Disk(TypedDict):
    intent: str
    cid: str | None
    cloud: str
    az: str | None
    state: str
    size_mb: int
    deployment: str | None
    ref: str | None
    node: str | None
    vm_cid: str | None
    created_at: str


class DisksToDelete(TypedDict):
    """Kept disks, by intent."""

    disks: list[str]


class DocumentsBody(TypedDict):
    """The manifest of the deployment, and the cloud config if none is set yet."""

    manifest: str
    manifest_file: NotRequired[str]
    cloud_config: NotRequired[str | None]
    config_file: NotRequired[str]


class Ended(TypedDict):
    name: str
    ended: list[str]


class Event(TypedDict):
    id: int
    task: int | None
    n: int
    at: str
    kind: str
    subject: str
    body: str
    data: Any


class Explanation(TypedDict):
    path: str
    type: str
    description: str


class Fact(TypedDict):
    at: str
    data: Any
    error: dict[str, Any] | None


class Finding(TypedDict):
    id: int
    cloud: str
    kind: str
    cid: str | None
    verdict: str
    action: str
    reason: str
    outcome: str | None


class GrantBody(TypedDict):
    """The user that gets the rights that the driver needs."""

    user: str
    groups: NotRequired[bool]


class Group(TypedDict):
    intent: str
    cid: str | None
    name: str
    deployment: str
    cloud: str
    policy: str | None
    state: str
    adopted: bool
    drift: list[str]
    remedy: str
    size: int
    instance_groups: list[str]
    created_at: str
    ended_at: str | None


class GroupDetail(TypedDict):
    intent: str
    cid: str | None
    name: str
    deployment: str
    cloud: str
    policy: str | None
    state: str
    adopted: bool
    drift: list[str]
    remedy: str
    size: int
    instance_groups: list[str]
    created_at: str
    ended_at: str | None
    members: list[dict[str, Any]]
    live: Live | None


class Info(TypedDict):
    version: str
    director: DirectorName
    local: bool
    pid: int
    unfinished: list[dict[str, Any]]
    resumed: list[dict[str, Any]]


class Item(TypedDict):
    kind: str
    name: str
    cloud: str
    cid: str
    why: str
    taken: bool


class Key(TypedDict):
    id: str
    conductor_group: NotRequired[str]
    public: str
    published_by: str
    created_at: str


class Live(TypedDict):
    """The cloud's answer about it, and when."""

    at: str | None
    data: dict[str, Any] | None
    error: dict[str, Any] | None


class LookBody(TypedDict):
    """What to look at: the nodes of a deployment, one node, or, with neither, all clouds and their nodes."""

    deployment: NotRequired[str | None]
    node: NotRequired[str | None]


class Mark(TypedDict):
    cloud: str
    kind: str
    cid: str
    since: str
    pinned: bool


class Me(TypedDict):
    name: str
    role: str
    how: str
    teams: list[str] | None
    detail: str


class NewCloud(TypedDict):
    """One more cloud for the cloud config."""

    name: str
    driver: str
    conductor_group: NotRequired[str]
    other_conductor_groups: NotRequired[list[str]]
    properties: NotRequired[dict[str, Any]]


class NewNode(TypedDict):
    """A machine that exists, to be managed from now on. A name of null is made of the CID."""

    cloud: str
    cid: str
    name: NotRequired[str | None]
    conductor_group: NotRequired[str | None]


class NewToken(TypedDict):
    id: str
    name: str
    role: str
    teams: list[str] | None
    state: str
    created_by: str
    created_at: str
    expires_at: str
    revoked_at: str | None
    text: str


class Node(TypedDict):
    uuid: str
    name: str
    deployment: str | None
    instance_group: str | None
    index: int | None
    az: str | None
    cloud: str
    state: str
    vm_cid: str | None
    host: str | None
    addresses: dict[str, Any]
    server_group: str | None
    server_group_cid: str | None
    conductor_group: NotRequired[str | None]
    runs_in_group: NotRequired[str]
    enrolled: NotRequired[bool]
    problem: dict[str, Any] | None
    created_at: str
    updated_at: str


class NodeChange(TypedDict):
    """What of a node can be set. A group of null is its cloud's."""

    conductor_group: str | None


class NodeDetail(TypedDict):
    uuid: str
    name: str
    deployment: str | None
    instance_group: str | None
    index: int | None
    az: str | None
    cloud: str
    state: str
    vm_cid: str | None
    host: str | None
    addresses: dict[str, Any]
    server_group: str | None
    server_group_cid: str | None
    conductor_group: NotRequired[str | None]
    runs_in_group: NotRequired[str]
    enrolled: NotRequired[bool]
    problem: dict[str, Any] | None
    created_at: str
    updated_at: str
    spec: dict[str, Any] | None
    objects: list[dict[str, Any]]


class OneRing(TypedDict):
    key: str
    algorithm: str
    members: list[dict[str, Any]]
    orphans: int


class PinBody(TypedDict):
    """The account that the objects of a cloud are in now, as the cloud identifies it."""

    identity: str


class Placement(TypedDict):
    pass


class Plan(TypedDict):
    id: str
    changes: list[Change]


class PlanBody(TypedDict):
    """Body of a plan: a deploy (with `manifest`), a delete (with `deployment` and `delete`), or work on nodes
    (with `deployment`, `nodes` and `action`)."""

    deployment: NotRequired[str | None]
    manifest: NotRequired[str | None]
    manifest_file: NotRequired[str]
    cloud_config: NotRequired[str | None]
    config_file: NotRequired[str]
    delete: NotRequired[bool]
    delete_disks: NotRequired[bool]
    recreate: NotRequired[bool]
    nodes: NotRequired[list[str]]
    reuse_disks: NotRequired[bool]
    action: NotRequired[Literal["recreate", "restart", "stop", "start", "attach"] | None]
    max_in_flight: NotRequired[int]
    disk: NotRequired[str | None]


class Progress(TypedDict):
    total: int
    ended: int
    failed: int


class PublishBody(TypedDict):
    """A public key, and the group whose conductors hold the private half; `*`: conductors that serve every
    group."""

    conductor_group: str
    public: str


class Recovery(TypedDict):
    id: str
    deployment: str
    known: int
    items: list[Item]


class RecoveryBody(TypedDict):
    """The same, and the recovery that was looked at."""

    manifest: str
    manifest_file: NotRequired[str]
    cloud_config: NotRequired[str | None]
    config_file: NotRequired[str]
    plan: str


class Resealed(TypedDict):
    name: str
    key: str
    sealed_to: NotRequired[dict[str, str]]
    sealed_again: NotRequired[int]


class RetireBody(TypedDict):
    conductor_group: str


class RingExplanation(TypedDict):
    node: str
    uuid: str
    key: str
    conductor_group: str
    inherited: bool
    driver: str
    groups_count: bool
    algorithm: str
    ring: list[str]
    conductor: str | None
    why: str


class Rings(TypedDict):
    groups_count: bool
    rings: list[OneRing]


class SettingsFile(TypedDict):
    path: str
    found: bool


class SettleBody(TypedDict):
    """What an operator found in the cloud: its CID there, or null for nothing."""

    cid: NotRequired[str | None]


class Stage(TypedDict):
    n: int
    name: str
    state: str
    max_in_flight: int | None
    total: int
    admitted: int
    ended: int
    failed: int
    cancelled_steps: NotRequired[int]


class Stemcell(TypedDict):
    name: str
    version: str
    os: str | None
    light: bool
    sha256: str | None
    cloud_properties: dict[str, Any]
    formats: list[str]
    clouds: list[str]
    created_at: str


class Step(TypedDict):
    id: int
    stage: int
    flow: str
    label: str
    subject: str
    state: str
    attempt: int
    owner: str | None
    error: dict[str, Any] | None


class SurveyBody(TypedDict):
    """Which objects, and how carefully; fields that are left out take this Director's settings."""

    kinds: NotRequired[list[str] | None]
    not_kinds: NotRequired[list[str] | None]
    names: NotRequired[list[str] | None]
    not_names: NotRequired[list[str] | None]
    clouds: NotRequired[list[str] | None]
    not_clouds: NotRequired[list[str] | None]
    azs: NotRequired[list[str] | None]
    not_azs: NotRequired[list[str] | None]
    grace_s: NotRequired[float | None]
    older_than_s: NotRequired[float | None]
    undo_s: NotRequired[float | None]
    disks: NotRequired[Literal["keep", "snapshot"] | None]
    keep_stemcells: NotRequired[int | None]
    cap: NotRequired[int | None]
    cap_percent: NotRequired[float | None]
    rate: NotRequired[float | None]
    expires_s: NotRequired[float | None]
    hours: NotRequired[str | None]


class SurveyStarted(TypedDict):
    task_id: int
    cleanup: int


class Target(TypedDict):
    targets: list[str]
    labels: dict[str, str]


class Task(TypedDict):
    id: int
    kind: str
    deployment: str | None
    state: str
    requested_by: str | None
    events: int
    steps: Progress
    created_at: str
    ended_at: str | None


class TaskDetail(TypedDict):
    id: int
    kind: str
    deployment: str | None
    state: str
    requested_by: str | None
    events: int
    steps: Progress
    created_at: str
    ended_at: str | None
    plan: Any
    report: dict[str, Any] | None
    stages: list[Stage]
    waiting: list[str]


class Token(TypedDict):
    id: str
    name: str
    role: str
    teams: list[str] | None
    state: str
    created_by: str
    created_at: str
    expires_at: str
    revoked_at: str | None


class TokenBody(TypedDict):
    """The name of its user and what it may do. `teams` null: not limited to teams."""

    name: str
    role: NotRequired[Literal["admin", "operator", "viewer"]]
    teams: NotRequired[list[str] | None]
    days: NotRequired[int]


class UndoBody(TypedDict):
    """Disks to save, by CID or intent; none: all that are in their undo window."""

    names: NotRequired[list[str]]


class Undone(TypedDict):
    saved: list[dict[str, Any]]


class Value(TypedDict):
    name: str
    value: Any
    origin: str
    variable: str
    help: str


class WhatIf(TypedDict):
    nodes: int
    moved: int
    orphaned: int
    moves: list[dict[str, Any]]
