"""Every operation of the API as a method with types. Generated from the OpenAPI document by
`python -m coterie.cli.client_code src/coterie/cli/link`. Do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from coterie.cli.link.api import Api, part, parts

if TYPE_CHECKING:
    from coterie.cli.link.resources import (
        ActionBody,
        ApplyBody,
        Cleanup,
        CleanupDetail,
        Cloud,
        CloudChange,
        CloudConfig,
        CloudDetail,
        CloudObject,
        Conductor,
        ConductorGroup,
        Config,
        DeployBody,
        Deployment,
        DeploymentChange,
        Disk,
        DisksToDelete,
        DocumentsBody,
        Ended,
        Event,
        Explanation,
        Finding,
        GrantBody,
        Group,
        GroupDetail,
        Info,
        Key,
        Listing,
        LookBody,
        Mark,
        Me,
        NewCloud,
        NewNode,
        NewToken,
        Node,
        NodeChange,
        NodeDetail,
        PinBody,
        Placement,
        Plan,
        PlanBody,
        PublishBody,
        Recovery,
        RecoveryBody,
        Resealed,
        RetireBody,
        RingExplanation,
        Rings,
        SettleBody,
        Stemcell,
        Step,
        SurveyBody,
        Target,
        Task,
        TaskDetail,
        Token,
        TokenBody,
        UndoBody,
        Undone,
        WhatIf,
    )


class CleanupsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def apply(self, cleanup: int, body: ApplyBody) -> int:
        """Carry the plan out if it is still the same (else 412); each object is read again before it is
        deleted."""
        return self._api.start("POST", f"/v1/cleanups/{cleanup}/apply", body)

    def begin(self, body: SurveyBody) -> int:
        """Survey the clouds. Deletes nothing: the resulting plan has to be applied."""
        return self._api.start("POST", "/v1/cleanups", body)

    def findings(
        self,
        cleanup: int,
        *,
        verdict: str | None = None,
        kind: str | None = None,
        cloud: str | None = None,
        outcome: str | None = None,
        limit: int | None = None,
    ) -> Listing[Finding]:
        """Everything that is neither in use nor foreign, with the reason and the evidence."""
        found: Listing[Finding] = self._api.list(
            f"/v1/cleanups/{cleanup}/findings",
            {"verdict": verdict, "kind": kind, "cloud": cloud, "outcome": outcome},
            limit,
        )
        return found

    def get(self, cleanup: int) -> CleanupDetail:
        """With its surveys, its plan (once the survey has ended) and the outcomes."""
        answer: CleanupDetail = self._api.send("GET", f"/v1/cleanups/{cleanup}", {}, None).body
        return answer

    def list(self, *, limit: int | None = None) -> Listing[Cleanup]:
        """Newest first."""
        found: Listing[Cleanup] = self._api.list("/v1/cleanups", {}, limit)
        return found

    def marks(self, *, limit: int | None = None) -> Listing[Mark]:
        """Objects that were seen unused, since when, and whether undo has saved them."""
        found: Listing[Mark] = self._api.list("/v1/cleanups/marks", {}, limit)
        return found

    def undo(self, body: UndoBody) -> Undone:
        """Save disks from their undo window: no cleanup deletes them any more."""
        answer: Undone = self._api.send("POST", "/v1/cleanups/undo", {}, body).body
        return answer


class CloudConfigOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self) -> CloudConfig:
        """The one in force, secret values hidden. Its ETag is what If-Match of a change must name."""
        answer: CloudConfig = self._api.send("GET", "/v1/cloud-config", {}, None).body
        return answer

    def replace(self, body: dict[str, Any]) -> CloudConfig:
        """Set it, as text/yaml or as JSON {text, file}. All mistakes are reported at once."""
        answer: CloudConfig = self._api.send("PUT", "/v1/cloud-config", {}, body).body
        return answer


class CloudsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def accept(self, name: str) -> Ended:
        """Take the state of the cloud as it is: its alarms end, and lost nodes may be made anew."""
        answer: Ended = self._api.send("POST", f"/v1/clouds/{part(name)}/accept", {}, None).body
        return answer

    def add(self, body: NewCloud) -> CloudDetail:
        """Add a cloud: a new cloud config, with one more entry."""
        answer: CloudDetail = self._api.send("POST", "/v1/clouds", {}, body).body
        return answer

    def change(self, name: str, body: CloudChange) -> CloudDetail:
        """Move it to another conductor group: a new cloud config, with one line changed. One of its other
        groups changes places with it."""
        answer: CloudDetail = self._api.send("PATCH", f"/v1/clouds/{part(name)}", {}, body).body
        return answer

    def check(self, name: str) -> CloudDetail:
        """Have a conductor check the cloud now: credentials, privileges, quotas, hosts."""
        answer: CloudDetail = self._api.send("POST", f"/v1/clouds/{part(name)}/check", {}, None).body
        return answer

    def get(self, name: str) -> CloudDetail:
        """With its capabilities and the latest facts, each dated. Its ETag is that of the cloud config it
        stands in."""
        answer: CloudDetail = self._api.send("GET", f"/v1/clouds/{part(name)}", {}, None).body
        return answer

    def grant(self, name: str, body: GrantBody) -> int:
        """Create or renew the driver's role in the cloud and give it to a user, with the cloud's configured
        credentials."""
        return self._api.start("POST", f"/v1/clouds/{part(name)}/grant", body)

    def list(self, *, limit: int | None = None) -> Listing[Cloud]:
        found: Listing[Cloud] = self._api.list("/v1/clouds", {}, limit)
        return found

    def repin(self, name: str, body: PinBody) -> CloudDetail:
        """Everything of ours in this cloud was moved to another account and kept its ids."""
        answer: CloudDetail = self._api.send("POST", f"/v1/clouds/{part(name)}/repin", {}, body).body
        return answer

    def reseal(self, name: str) -> Resealed:
        """Have a conductor of each of its groups seal its properties, and the machine secrets of the group,
        again: to the newest key that it holds."""
        answer: Resealed = self._api.send("POST", f"/v1/clouds/{part(name)}/reseal", {}, None).body
        return answer


class ConductorsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def groups(self, *, limit: int | None = None) -> Listing[ConductorGroup]:
        """Every group that a conductor, a cloud or a node names: its live members, and the nodes that none
        serves."""
        found: Listing[ConductorGroup] = self._api.list("/v1/conductors/groups", {}, limit)
        return found

    def list(self, *, limit: int | None = None) -> Listing[Conductor]:
        found: Listing[Conductor] = self._api.list("/v1/conductors", {}, limit)
        return found


class DeploymentsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def abandon(self, name: str) -> Any:
        """Abandon it without calling a cloud: its tasks end, and its objects in clouds are left to
        cleanup."""
        answer: Any = self._api.send("POST", f"/v1/deployments/{part(name)}/abandon", {}, None).body
        return answer

    def act(self, name: str, body: ActionBody) -> int:
        """Recreate, restart, stop or start nodes, or give one a kept disk. With `plan`, only if planning now
        gives the plan that was confirmed (else 412)."""
        return self._api.start("POST", f"/v1/deployments/{part(name)}/actions", body)

    def change(self, name: str, body: DeploymentChange) -> Deployment:
        """Assign it to a team: then its members see it, and callers that are not limited to teams."""
        answer: Deployment = self._api.send("PATCH", f"/v1/deployments/{part(name)}", {}, body).body
        return answer

    def delete(self, name: str, *, delete_disks: bool | None = None, plan: str | None = None) -> int:
        """Delete its VMs and groups; disks are kept for the undo window unless `delete_disks` is set."""
        return self._api.start(
            "DELETE", f"/v1/deployments/{part(name)}", None, delete_disks=delete_disks, plan=plan
        )

    def deploy(self, name: str, body: DeployBody) -> int:
        """Deploy the manifest. With `plan`, only if planning now gives the plan that was confirmed (else
        412)."""
        return self._api.start("PUT", f"/v1/deployments/{part(name)}", body)

    def get(self, name: str) -> Deployment:
        answer: Deployment = self._api.send("GET", f"/v1/deployments/{part(name)}", {}, None).body
        return answer

    def list(self, *, limit: int | None = None) -> Listing[Deployment]:
        found: Listing[Deployment] = self._api.list("/v1/deployments", {}, limit)
        return found

    def manifest(self, name: str) -> Any:
        """The manifest as it was given, secret values hidden."""
        answer: Any = self._api.send("GET", f"/v1/deployments/{part(name)}/manifest", {}, None).body
        return answer


class DirectorOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def config(self) -> Config:
        """The Director's own settings and where each came from; secrets are hidden."""
        answer: Config = self._api.send("GET", "/v1/config", {}, None).body
        return answer

    def info(self) -> Info:
        """Version, identity, tasks that are not finished, and those that were resumed at the start."""
        answer: Info = self._api.send("GET", "/v1/info", {}, None).body
        return answer


class DisksOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def delete(self, intent: str) -> int:
        """Delete a kept disk and its data. One that a node uses is refused (409)."""
        return self._api.start("DELETE", f"/v1/disks/{part(intent)}", None)

    def delete_several(self, body: DisksToDelete) -> int:
        """Delete kept disks and their data in one task. If a node uses one of them, none is deleted (409)."""
        return self._api.start("POST", "/v1/disks/delete", body)

    def get(self, intent: str) -> Disk:
        answer: Disk = self._api.send("GET", f"/v1/disks/{part(intent)}", {}, None).body
        return answer

    def list(
        self,
        *,
        deployment: str | None = None,
        state: Literal["intended", "live", "unknown", "kept", "deleting"] | None = None,
        cloud: str | None = None,
        limit: int | None = None,
    ) -> Listing[Disk]:
        found: Listing[Disk] = self._api.list(
            "/v1/disks", {"deployment": deployment, "state": state, "cloud": cloud}, limit
        )
        return found


class EventsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def list(self, *, kind: str | None = None, subject: str | None = None, limit: int | None = None) -> Listing[Event]:
        """Newest first; the stream begins now, or after Last-Event-ID."""
        found: Listing[Event] = self._api.list("/v1/events", {"kind": kind, "subject": subject}, limit)
        return found

    def of_task(self, task: int, *, limit: int | None = None) -> Listing[Event]:
        """Oldest first. The stream's ids are the events' numbers in the task; its last event is `end` with
        the task."""
        found: Listing[Event] = self._api.list(f"/v1/tasks/{task}/events", {}, limit)
        return found


class ExplainOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self, path: str) -> Explanation:
        answer: Explanation = self._api.send("GET", f"/v1/explain/{parts(path)}", {}, None).body
        return answer


class GroupsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self, cid: str) -> GroupDetail:
        """With its members, and a fresh look through a conductor of its cloud."""
        answer: GroupDetail = self._api.send("GET", f"/v1/groups/{part(cid)}", {}, None).body
        return answer

    def list(
        self,
        *,
        deployment: str | None = None,
        cloud: str | None = None,
        name: str | None = None,
        state: Literal["intended", "live", "drifted", "missing", "deleting", "gone"] | None = None,
        limit: int | None = None,
    ) -> Listing[Group]:
        """All that may be in a cloud; `state=gone` for deleted ones. `drifted`: not as created, see
        `drift`."""
        found: Listing[Group] = self._api.list(
            "/v1/groups", {"deployment": deployment, "cloud": cloud, "name": name, "state": state}, limit
        )
        return found

    def repair(self, cid: str) -> int:
        """Have the cloud create again what it lost of the group, for the VMs that belong to it."""
        return self._api.start("POST", f"/v1/groups/{part(cid)}/repair", None)


class KeysOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def list(self, *, limit: int | None = None) -> Listing[Key]:
        """By group, newest first: credentials are sealed to the first of each group."""
        found: Listing[Key] = self._api.list("/v1/keys", {}, limit)
        return found

    def publish(self, body: PublishBody) -> Any:
        answer: Any = self._api.send("POST", "/v1/keys", {}, body).body
        return answer

    def retire(self, key: str, body: RetireBody) -> Any:
        """Forget a key that was replaced. Refused (409) while properties of a cloud are sealed to it."""
        answer: Any = self._api.send("POST", f"/v1/keys/{part(key)}/retire", {}, body).body
        return answer


class LooksOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def look(self, body: LookBody) -> int:
        """Look at once, as the periodic look does: it changes no VM."""
        return self._api.start("POST", "/v1/looks", body)


class NodesOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def change(self, which: str, body: NodeChange) -> NodeDetail:
        """Move a node to another conductor group; refused where no live conductor has its driver."""
        answer: NodeDetail = self._api.send("PATCH", f"/v1/nodes/{parts(which)}", {}, body).body
        return answer

    def delete(self, which: str, *, destroy: bool | None = None) -> Any:
        """Forget an enrolled node; its machine stays, unless `destroy` is set (then 202 and a task)."""
        answer: Any = self._api.send("DELETE", f"/v1/nodes/{parts(which)}", {"destroy": destroy}, None).body
        return answer

    def enroll(self, body: NewNode) -> NodeDetail:
        """Enroll an existing machine: it is shown and monitored, never recreated and never cleaned up."""
        answer: NodeDetail = self._api.send("POST", "/v1/nodes", {}, body).body
        return answer

    def get(self, which: str) -> NodeDetail:
        answer: NodeDetail = self._api.send("GET", f"/v1/nodes/{parts(which)}", {}, None).body
        return answer

    def list(
        self,
        *,
        deployment: str | None = None,
        instance_group: str | None = None,
        az: str | None = None,
        state: Literal["planned", "changing", "up", "failing", "dead", "missing", "stopped", "deleting"] | None = None,
        cloud: str | None = None,
        enrolled: bool | None = None,
        conductor_group: str | None = None,
        limit: int | None = None,
    ) -> Listing[Node]:
        """`conductor_group`: the group that the work of a node runs in, its own or its cloud's; an empty one
        is blank."""
        found: Listing[Node] = self._api.list(
            "/v1/nodes",
            {
                "deployment": deployment,
                "instance_group": instance_group,
                "az": az,
                "state": state,
                "cloud": cloud,
                "enrolled": enrolled,
                "conductor_group": conductor_group,
            },
            limit,
        )
        return found


class ObjectsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self, intent: str) -> CloudObject:
        answer: CloudObject = self._api.send("GET", f"/v1/objects/{part(intent)}", {}, None).body
        return answer

    def list(
        self,
        *,
        kind: str | None = None,
        state: Literal["intended", "live", "unknown", "kept", "deleting", "late", "gone"] | None = None,
        cloud: str | None = None,
        deployment: str | None = None,
        limit: int | None = None,
    ) -> Listing[CloudObject]:
        found: Listing[CloudObject] = self._api.list(
            "/v1/objects", {"kind": kind, "state": state, "cloud": cloud, "deployment": deployment}, limit
        )
        return found

    def settle(self, intent: str, body: SettleBody) -> CloudObject:
        """Set the outcome of an object in doubt whose cloud cannot be searched for it."""
        answer: CloudObject = self._api.send("POST", f"/v1/objects/{part(intent)}/settle", {}, body).body
        return answer


class PlacementOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def audit(self, *, deployment: str | None = None) -> Placement:
        """Per server group: the promise, the hosts, whether it holds, what a host or rack failure would take
        down."""
        answer: Placement = self._api.send("GET", "/v1/placement", {"deployment": deployment}, None).body
        return answer


class PlansOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def make(
        self,
        body: PlanBody,
        *,
        format: Literal["json", "text"] | None = None,
        text: Literal["none", "short", "detail"] | None = None,
    ) -> Plan:
        """Refresh the facts, then plan. The ETag is the plan's id: a deploy that names it is refused once it
        is stale."""
        answer: Plan = self._api.send("POST", "/v1/plans", {"format": format, "text": text}, body).body
        return answer


class RecoveriesOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def apply(self, body: RecoveryBody) -> Recovery:
        """Write the records, if the clouds still show what was looked at (else 412). Changes no cloud."""
        answer: Recovery = self._api.send("POST", "/v1/recoveries", {}, body).body
        return answer

    def plan(self, body: DocumentsBody) -> Recovery:
        """What the clouds hold of the deployment with the mark of this Director, and which of it can be
        taken."""
        answer: Recovery = self._api.send("POST", "/v1/recoveries/plan", {}, body).body
        return answer


class RingOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def explain(self, which: str) -> RingExplanation:
        """The conductor of one node, and why it is that one."""
        answer: RingExplanation = self._api.send("GET", f"/v1/ring/nodes/{parts(which)}", {}, None).body
        return answer

    def get(self) -> Rings:
        """Every ring: its members, and how many nodes each has."""
        answer: Rings = self._api.send("GET", "/v1/ring", {}, None).body
        return answer

    def what_if(self, *, without: list[str] | None = None, with_: list[str] | None = None) -> WhatIf:
        """How many nodes would move, and where, if conductors left or joined."""
        answer: WhatIf = self._api.send("GET", "/v1/ring/what-if", {"without": without, "with": with_}, None).body
        return answer


class StemcellsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def add(self, body: dict[str, Any]) -> Stemcell:
        """Upload a BOSH stemcell tarball (streamed), or describe a light stemcell as JSON. The same one again
        is fine."""
        answer: Stemcell = self._api.send("POST", "/v1/stemcells", {}, body).body
        return answer

    def delete(self, name: str, version: str) -> Any:
        """Take it out of the stemcells. One that a cloud still holds an image of is refused (409)."""
        answer: Any = self._api.send("DELETE", f"/v1/stemcells/{part(name)}/{part(version)}", {}, None).body
        return answer

    def get(self, name: str, version: str) -> Stemcell:
        answer: Stemcell = self._api.send("GET", f"/v1/stemcells/{part(name)}/{part(version)}", {}, None).body
        return answer

    def list(self, *, limit: int | None = None) -> Listing[Stemcell]:
        found: Listing[Stemcell] = self._api.list("/v1/stemcells", {}, limit)
        return found


class TargetsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def list(
        self, *, port: int | None = None, deployment: str | None = None, network: str | None = None
    ) -> list[Target]:
        """All nodes with an address, with `__meta_coterie_…` labels. Not paged: Prometheus reads one
        reply."""
        answer: list[Target] = self._api.send(
            "GET", "/v1/targets", {"port": port, "deployment": deployment, "network": network}, None
        ).body
        return answer


class TasksOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def cancel(self, task: int) -> int:
        """Start no new step; running steps end at their next pause. A task that has ended is left as it is
        (409)."""
        return self._api.start("POST", f"/v1/tasks/{task}/cancel", None)

    def get(self, task: int) -> TaskDetail:
        """With its plan, stages and report, and the reasons why steps wait, computed now."""
        answer: TaskDetail = self._api.send("GET", f"/v1/tasks/{task}", {}, None).body
        return answer

    def list(
        self,
        *,
        deployment: str | None = None,
        state: Literal["running", "cancelling", "done", "failed", "cancelled"] | None = None,
        kind: str | None = None,
        without: str | None = None,
        limit: int | None = None,
    ) -> Listing[Task]:
        """Newest first."""
        found: Listing[Task] = self._api.list(
            "/v1/tasks", {"deployment": deployment, "state": state, "kind": kind, "without": without}, limit
        )
        return found

    def steps(
        self,
        task: int,
        *,
        state: Literal["queued", "ready", "running", "done", "failed", "skipped", "cancelled"] | None = None,
        limit: int | None = None,
    ) -> Listing[Step]:
        found: Listing[Step] = self._api.list(f"/v1/tasks/{task}/steps", {"state": state}, limit)
        return found


class TokensOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self, token: str) -> Token:
        answer: Token = self._api.send("GET", f"/v1/tokens/{part(token)}", {}, None).body
        return answer

    def list(self, *, limit: int | None = None) -> Listing[Token]:
        found: Listing[Token] = self._api.list("/v1/tokens", {}, limit)
        return found

    def make(self, body: TokenBody) -> NewToken:
        """The only answer that ever holds the token itself (`text`): only its hash is stored. So a request
        that is repeated with its Idempotency-Key creates no second token; the answer (409) names the first
        one."""
        answer: NewToken = self._api.send("POST", "/v1/tokens", {}, body).body
        return answer

    def revoke(self, token: str) -> Any:
        """From now on the token is refused."""
        answer: Any = self._api.send("DELETE", f"/v1/tokens/{part(token)}", {}, None).body
        return answer

    def whoami(self) -> Me:
        """The caller as this Director sees it, and what it may do."""
        answer: Me = self._api.send("GET", "/v1/whoami", {}, None).body
        return answer


class Client:
    """All nouns. Work that is started answers the number of its task."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.cleanups = CleanupsOperations(api)
        self.cloud_config = CloudConfigOperations(api)
        self.clouds = CloudsOperations(api)
        self.conductors = ConductorsOperations(api)
        self.deployments = DeploymentsOperations(api)
        self.director = DirectorOperations(api)
        self.disks = DisksOperations(api)
        self.events = EventsOperations(api)
        self.explain = ExplainOperations(api)
        self.groups = GroupsOperations(api)
        self.keys = KeysOperations(api)
        self.looks = LooksOperations(api)
        self.nodes = NodesOperations(api)
        self.objects = ObjectsOperations(api)
        self.placement = PlacementOperations(api)
        self.plans = PlansOperations(api)
        self.recoveries = RecoveriesOperations(api)
        self.ring = RingOperations(api)
        self.stemcells = StemcellsOperations(api)
        self.targets = TargetsOperations(api)
        self.tasks = TasksOperations(api)
        self.tokens = TokensOperations(api)
