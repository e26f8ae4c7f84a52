"""What the REST API returns. A Director of another release may leave fields out or add some.

Made from the OpenAPI document by `make docs`; changes by hand are lost.
"""

from typing import Any, Generic, NotRequired, TypedDict, TypeVar

T = TypeVar("T")


class Listing(TypedDict, Generic[T]):
    """One page, or all pages as one. `next` is the cursor of the following one."""

    items: list[T]
    next: str | None


class Accepted(TypedDict):
    """Work was started; follow it at `Location`."""

    task_id: int


class AcceptedManifest(TypedDict):
    id: int
    requested_by: str | None
    created_at: str


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


class CloudConfig(TypedDict):
    id: int
    text: str
    hash: str
    created_at: str


class Fact(TypedDict):
    at: str
    data: Any
    error: dict[str, Any] | None


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


class SettingsFile(TypedDict):
    path: str
    found: bool


class Value(TypedDict):
    name: str
    value: Any
    origin: str
    variable: str
    help: str


class Config(TypedDict):
    settings: list[Value]
    files: list[SettingsFile]


class ConsoleSession(TypedDict):
    """`how`: token, oidc or socket; `detail`: the token's id, or the issuer's subject. `state`: `over` where
    the token that it was begun with has been revoked or has expired since."""

    id: str
    name: str
    role: str
    teams: list[str] | None
    how: str
    detail: str
    state: str
    created_at: str
    expires_at: str


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


class Ended(TypedDict):
    name: str
    ended: list[str]


class EndedSessions(TypedDict):
    """How many sessions."""

    ended: int


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


class Finding(TypedDict):
    id: int
    cloud: str
    kind: str
    cid: str | None
    verdict: str
    action: str
    reason: str
    outcome: str | None


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


class Live(TypedDict):
    """The cloud's answer about it, and when."""

    at: str | None
    data: dict[str, Any] | None
    error: dict[str, Any] | None


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


class DirectorName(TypedDict):
    name: str
    uuid: str


class Info(TypedDict):
    version: str
    director: DirectorName
    local: bool
    pid: int
    unfinished: list[dict[str, Any]]
    resumed: list[dict[str, Any]]


class Key(TypedDict):
    id: str
    conductor_group: NotRequired[str]
    public: str
    published_by: str
    created_at: str


class Link(TypedDict):
    """Where the console is, for this caller."""

    path: str
    origin: str | None


class Mark(TypedDict):
    cloud: str
    kind: str
    cid: str
    since: str
    doomed: bool
    pinned: bool


class Me(TypedDict):
    name: str
    role: str
    how: str
    teams: list[str] | None
    detail: str


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


class OldManifest(TypedDict):
    id: int
    requested_by: str | None
    created_at: str
    body: str


class Worst(TypedDict):
    """The failure that takes down most nodes."""

    name: str
    nodes: list[str]


class PlacedGroup(TypedDict):
    deployment: str
    name: str
    cloud: str
    cid: str | None
    state: str
    policy: str | None
    promise: str
    holds: bool | None
    why: str
    remedy: str
    mend: list[str]
    outside: NotRequired[list[str]]
    down: dict[str, str]
    hosts: dict[str, list[str]]
    domains: NotRequired[dict[str, list[str]]]
    domain_word: NotRequired[str | None]
    update_domains: NotRequired[dict[str, list[str]]]
    worst_host: Worst | None
    worst_rack: Worst | None
    worst_domain: NotRequired[Worst | None]
    notes: list[str]
    unfinished_task: NotRequired[int | None]


class PlacedNode(TypedDict):
    deployment: str
    node: str
    state: str
    cloud: str
    az: str | None
    rack: str | None
    host: str | None
    vm_cid: str | None


class Placement(TypedDict):
    nodes: list[PlacedNode]
    groups: list[PlacedGroup]


class MapGroup(TypedDict):
    intent: str
    deployment: str
    name: str
    cloud: str
    cid: str | None
    policy: str | None
    state: str
    remedy: str
    size: int
    promise: str
    holds: bool | None
    why: str
    down: NotRequired[dict[str, str]]
    worst_host: Worst | None
    worst_rack: Worst | None


class MapHost(TypedDict):
    cloud: str
    az: str | None
    rack: str
    name: str


class MapNode(TypedDict):
    deployment: str | None
    node: str
    state: str
    cloud: str
    az: str | None
    rack: str
    host: str | None
    group: str | None


class MapRack(TypedDict):
    """`groups`: nodes of each server group by its intent; those of none under an empty one."""

    key: str
    cloud: str
    az: str | None
    rack: str
    hosts: int
    nodes: int
    unhealthy: int
    down: NotRequired[int]
    groups: dict[str, int]


class PlacementMap(TypedDict):
    racks: list[MapRack]
    nodes: list[MapNode]
    hosts: list[MapHost]
    groups: list[MapGroup]


class Change(TypedDict):
    action: str
    kind: str
    subject: str
    reason: str
    destructive: bool


class Plan(TypedDict):
    id: str
    deployment: str
    changes: list[Change]
    counts: dict[str, int]
    destructive: bool
    notes: list[str]
    offers: NotRequired[list[dict[str, Any]]]
    text: NotRequired[str]


class Item(TypedDict):
    kind: str
    name: str
    cloud: str
    cid: str
    why: str
    taken: bool


class Recovery(TypedDict):
    id: str
    deployment: str
    known: int
    items: list[Item]


class Resealed(TypedDict):
    name: str
    key: str
    sealed_to: NotRequired[dict[str, str]]
    sealed_again: NotRequired[int]


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


class OneRing(TypedDict):
    key: str
    algorithm: str
    members: list[dict[str, Any]]
    orphans: int


class Rings(TypedDict):
    groups_count: bool
    rings: list[OneRing]


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


class SurveyStarted(TypedDict):
    task_id: int
    cleanup: int


class Target(TypedDict):
    targets: list[str]
    labels: dict[str, str]


class Progress(TypedDict):
    total: int
    ended: int
    failed: int


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


class Undone(TypedDict):
    saved: list[dict[str, Any]]


class WhatIf(TypedDict):
    nodes: int
    moved: int
    orphaned: int
    moves: list[dict[str, Any]]
