"""Every operation of the REST API as a method, by noun.

Made from the OpenAPI document by `make docs`; changes by hand are lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from coterie.client.api import Api, new_key, part, parts, without_none
from coterie.client.pages import Pages

if TYPE_CHECKING:
    from coterie.client.resources import (
        Accepted,
        AcceptedManifest,
        Cleanup,
        CleanupDetail,
        Cloud,
        CloudConfig,
        CloudDetail,
        CloudObject,
        Conductor,
        ConductorGroup,
        Config,
        ConsoleSession,
        Deployment,
        Disk,
        Ended,
        EndedSessions,
        Event,
        Explanation,
        Finding,
        Group,
        GroupDetail,
        Info,
        Key,
        Link,
        Mark,
        Me,
        NewToken,
        Node,
        NodeDetail,
        OldManifest,
        Placement,
        PlacementMap,
        Plan,
        Recovery,
        Resealed,
        RingExplanation,
        Rings,
        Stemcell,
        Step,
        SurveyStarted,
        Target,
        Task,
        TaskDetail,
        Token,
        Undone,
        WhatIf,
    )

Match = str | Mapping[str, Any]  # an ETag, or a resource as it was returned


class CleanupsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def apply(
        self,
        cleanup: int,
        *,
        plan: str,
        items: Sequence[dict[str, Any]] | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """Carry the plan out if it is still the same (else 412); each object is read again before it is
        deleted."""
        answer: Accepted = self._api.call(
            "POST",
            f"/v1/cleanups/{cleanup}/apply",
            body={"plan": plan, **without_none({"items": items})},
            key=idempotency_key or new_key(),
        )
        return answer["task_id"]

    def begin(
        self,
        *,
        kinds: Sequence[str] | None = None,
        not_kinds: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        not_names: Sequence[str] | None = None,
        clouds: Sequence[str] | None = None,
        not_clouds: Sequence[str] | None = None,
        azs: Sequence[str] | None = None,
        not_azs: Sequence[str] | None = None,
        grace_s: float | None = None,
        older_than_s: float | None = None,
        undo_s: float | None = None,
        disks: Literal["keep", "snapshot"] | None = None,
        keep_stemcells: int | None = None,
        cap: int | None = None,
        cap_percent: float | None = None,
        rate: float | None = None,
        expires_s: float | None = None,
        hours: str | None = None,
        idempotency_key: str | None = None,
    ) -> SurveyStarted:
        """Survey the clouds. Deletes nothing: the resulting plan has to be applied."""
        answer: SurveyStarted = self._api.call(
            "POST",
            "/v1/cleanups",
            body=without_none(
                {
                    "kinds": kinds,
                    "not_kinds": not_kinds,
                    "names": names,
                    "not_names": not_names,
                    "clouds": clouds,
                    "not_clouds": not_clouds,
                    "azs": azs,
                    "not_azs": not_azs,
                    "grace_s": grace_s,
                    "older_than_s": older_than_s,
                    "undo_s": undo_s,
                    "disks": disks,
                    "keep_stemcells": keep_stemcells,
                    "cap": cap,
                    "cap_percent": cap_percent,
                    "rate": rate,
                    "expires_s": expires_s,
                    "hours": hours,
                }
            ),
            key=idempotency_key or new_key(),
        )
        return answer

    def findings(
        self,
        cleanup: int,
        *,
        verdict: str | None = None,
        kind: str | None = None,
        cloud: str | None = None,
        outcome: str | None = None,
    ) -> Pages[Finding]:
        """Everything that is neither in use nor foreign, with the reason and the evidence."""
        return Pages(
            self._api,
            f"/v1/cleanups/{cleanup}/findings",
            {"verdict": verdict, "kind": kind, "cloud": cloud, "outcome": outcome},
        )

    def get(self, cleanup: int) -> CleanupDetail:
        """With its surveys, its plan (once the survey has ended) and the outcomes."""
        answer: CleanupDetail = self._api.call("GET", f"/v1/cleanups/{cleanup}")
        return answer

    def list(self) -> Pages[Cleanup]:
        """Newest first."""
        return Pages(self._api, "/v1/cleanups", {})

    def marks(self) -> Pages[Mark]:
        """Objects that were seen unused, since when, and whether undo has saved them."""
        return Pages(self._api, "/v1/cleanups/marks", {})

    def undo(self, *, names: Sequence[str] | None = None, idempotency_key: str | None = None) -> Undone:
        """Save disks from their undo window: no cleanup deletes them any more."""
        answer: Undone = self._api.call(
            "POST", "/v1/cleanups/undo", body=without_none({"names": names}), key=idempotency_key or new_key()
        )
        return answer


class CloudConfigOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self) -> CloudConfig:
        """The one in force, secret values hidden. Its ETag is what If-Match of a change must name."""
        answer: CloudConfig = self._api.call("GET", "/v1/cloud-config")
        return answer

    def replace(
        self, *, text: str, file: str | None = None, idempotency_key: str | None = None, if_match: Match | None = None
    ) -> CloudConfig:
        """Set it, as text/yaml or as JSON {text, file}. All mistakes are reported at once."""
        answer: CloudConfig = self._api.call(
            "PUT",
            "/v1/cloud-config",
            body={"text": text, **without_none({"file": file})},
            key=idempotency_key or new_key(),
            if_match=if_match,
        )
        return answer


class CloudsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def accept(self, name: str, *, idempotency_key: str | None = None) -> Ended:
        """Take the state of the cloud as it is: its alarms end, and lost nodes may be made anew."""
        answer: Ended = self._api.call("POST", f"/v1/clouds/{part(name)}/accept", key=idempotency_key or new_key())
        return answer

    def add(
        self,
        *,
        name: str,
        driver: str,
        conductor_group: str | None = None,
        other_conductor_groups: Sequence[str] | None = None,
        properties: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> CloudDetail:
        """Add a cloud: a new cloud config, with one more entry."""
        answer: CloudDetail = self._api.call(
            "POST",
            "/v1/clouds",
            body={
                "name": name,
                "driver": driver,
                **without_none(
                    {
                        "conductor_group": conductor_group,
                        "other_conductor_groups": other_conductor_groups,
                        "properties": properties,
                    }
                ),
            },
            key=idempotency_key or new_key(),
        )
        return answer

    def change(self, name: str, *, conductor_group: str, if_match: Match | None = None) -> CloudDetail:
        """Move it to another conductor group: a new cloud config, with one line changed. One of its other
        groups changes places with it."""
        answer: CloudDetail = self._api.call(
            "PATCH", f"/v1/clouds/{part(name)}", body={"conductor_group": conductor_group}, if_match=if_match
        )
        return answer

    def check(self, name: str) -> CloudDetail:
        """Have a conductor check the cloud now: credentials, privileges, quotas, hosts."""
        answer: CloudDetail = self._api.call("POST", f"/v1/clouds/{part(name)}/check", harmless=True)
        return answer

    def get(self, name: str) -> CloudDetail:
        """With its capabilities and the latest facts, each dated. Its ETag is that of the cloud config it
        stands in."""
        answer: CloudDetail = self._api.call("GET", f"/v1/clouds/{part(name)}")
        return answer

    def grant(self, name: str, *, user: str, groups: bool | None = None, idempotency_key: str | None = None) -> int:
        """Create or renew the driver's role in the cloud and give it to a user, with the cloud's configured
        credentials."""
        answer: Accepted = self._api.call(
            "POST",
            f"/v1/clouds/{part(name)}/grant",
            body={"user": user, **without_none({"groups": groups})},
            key=idempotency_key or new_key(),
        )
        return answer["task_id"]

    def list(self) -> Pages[Cloud]:
        return Pages(self._api, "/v1/clouds", {})

    def prove(self, name: str, *, idempotency_key: str | None = None) -> int:
        """The second part of a deep check: try what the cloud promises on the deployment `deep-check-NAME`,
        which was made for nothing else. Each promise is an event `proof.ok`, `proof.failed` or
        `proof.impossible` of the task."""
        answer: Accepted = self._api.call("POST", f"/v1/clouds/{part(name)}/prove", key=idempotency_key or new_key())
        return answer["task_id"]

    def repin(self, name: str, *, identity: str, idempotency_key: str | None = None) -> CloudDetail:
        """Everything of ours in this cloud was moved to another account and kept its ids."""
        answer: CloudDetail = self._api.call(
            "POST", f"/v1/clouds/{part(name)}/repin", body={"identity": identity}, key=idempotency_key or new_key()
        )
        return answer

    def reseal(self, name: str, *, idempotency_key: str | None = None) -> Resealed:
        """Have a conductor of each of its groups seal its properties, and the machine secrets of the group,
        again: to the newest key that it holds."""
        answer: Resealed = self._api.call("POST", f"/v1/clouds/{part(name)}/reseal", key=idempotency_key or new_key())
        return answer


class ConductorsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def groups(self) -> Pages[ConductorGroup]:
        """Every group that a conductor, a cloud or a node names: its live members, and the nodes that none
        serves."""
        return Pages(self._api, "/v1/conductors/groups", {}, paged=False)

    def list(self) -> Pages[Conductor]:
        return Pages(self._api, "/v1/conductors", {})


class ConsoleOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def end_session(self, session: str) -> None:
        """From now on its browser has to log in again, which its user can do."""
        self._api.call("DELETE", f"/v1/console/sessions/{part(session)}")

    def end_sessions(self, *, name: str | None = None) -> EndedSessions:
        """All of them, or those of callers with this name; and the links by which they would log in."""
        answer: EndedSessions = self._api.call("DELETE", "/v1/console/sessions", query={"name": name})
        return answer

    def list_sessions(self, *, name: str | None = None) -> Pages[ConsoleSession]:
        """Those that are logged in; without what their browsers hold."""
        return Pages(self._api, "/v1/console/sessions", {"name": name})

    def make_link(self) -> Link:
        """A Director on a unix socket begins to listen on a loopback port for it, where callers have to log
        in."""
        answer: Link = self._api.call("POST", "/v1/console/links", harmless=True)
        return answer


class DeploymentsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def abandon(self, name: str, *, idempotency_key: str | None = None) -> None:
        """Abandon it without calling a cloud: its tasks end, and its objects in clouds are left to
        cleanup."""
        self._api.call("POST", f"/v1/deployments/{part(name)}/abandon", key=idempotency_key or new_key())

    def act(
        self,
        name: str,
        *,
        action: Literal["recreate", "restart", "stop", "start", "attach"],
        nodes: Sequence[str],
        max_in_flight: int | None = None,
        disk: str | None = None,
        plan: str | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """Recreate, restart, stop or start nodes, or give one a kept disk. With `plan`, only if planning now
        gives the plan that was confirmed (else 412)."""
        answer: Accepted = self._api.call(
            "POST",
            f"/v1/deployments/{part(name)}/actions",
            body={
                "action": action,
                "nodes": nodes,
                **without_none({"max_in_flight": max_in_flight, "disk": disk, "plan": plan}),
            },
            key=idempotency_key or new_key(),
        )
        return answer["task_id"]

    def change(self, name: str, *, team: str | None, if_match: Match | None = None) -> Deployment:
        """Assign it to a team: then its members see it, and callers that are not limited to teams."""
        answer: Deployment = self._api.call(
            "PATCH", f"/v1/deployments/{part(name)}", body={"team": team}, if_match=if_match
        )
        return answer

    def delete(
        self,
        name: str,
        *,
        delete_disks: bool | None = None,
        plan: str | None = None,
        idempotency_key: str | None = None,
        if_match: Match | None = None,
    ) -> int:
        """Delete its VMs and groups; disks are kept for the undo window unless `delete_disks` is set."""
        answer: Accepted = self._api.call(
            "DELETE",
            f"/v1/deployments/{part(name)}",
            query={"delete_disks": delete_disks, "plan": plan},
            key=idempotency_key or new_key(),
            if_match=if_match,
        )
        return answer["task_id"]

    def deploy(
        self,
        name: str,
        *,
        manifest: str,
        manifest_file: str | None = None,
        cloud_config: str | None = None,
        config_file: str | None = None,
        recreate: bool | None = None,
        nodes: Sequence[str] | None = None,
        reuse_disks: bool | None = None,
        plan: str | None = None,
        team: str | None = None,
        idempotency_key: str | None = None,
        if_match: Match | None = None,
    ) -> int:
        """Deploy the manifest. With `plan`, only if planning now gives the plan that was confirmed (else
        412)."""
        answer: Accepted = self._api.call(
            "PUT",
            f"/v1/deployments/{part(name)}",
            body={
                "manifest": manifest,
                **without_none(
                    {
                        "manifest_file": manifest_file,
                        "cloud_config": cloud_config,
                        "config_file": config_file,
                        "recreate": recreate,
                        "nodes": nodes,
                        "reuse_disks": reuse_disks,
                        "plan": plan,
                        "team": team,
                    }
                ),
            },
            key=idempotency_key or new_key(),
            if_match=if_match,
        )
        return answer["task_id"]

    def get(self, name: str) -> Deployment:
        answer: Deployment = self._api.call("GET", f"/v1/deployments/{part(name)}")
        return answer

    def list(self) -> Pages[Deployment]:
        return Pages(self._api, "/v1/deployments", {})

    def manifest(self, name: str) -> str:
        """The manifest as it was given, secret values hidden."""
        answer: str = self._api.call("GET", f"/v1/deployments/{part(name)}/manifest")
        return answer

    def manifest_version(self, name: str, number: int) -> OldManifest:
        """One of them with its text, secret values hidden."""
        answer: OldManifest = self._api.call("GET", f"/v1/deployments/{part(name)}/manifests/{number}")
        return answer

    def manifests(self, name: str) -> Pages[AcceptedManifest]:
        """Manifests that were accepted, newest first; the newest 50 are kept."""
        return Pages(self._api, f"/v1/deployments/{part(name)}/manifests", {})


class DirectorOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def config(self) -> Config:
        """The Director's own settings and where each came from; secrets are hidden."""
        answer: Config = self._api.call("GET", "/v1/config")
        return answer

    def info(self) -> Info:
        """Version, identity, tasks that are not finished, and those that were resumed at the start."""
        answer: Info = self._api.call("GET", "/v1/info")
        return answer


class DisksOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def delete(self, intent: str, *, idempotency_key: str | None = None) -> int:
        """Delete a kept disk and its data. One that a node uses is refused (409)."""
        answer: Accepted = self._api.call("DELETE", f"/v1/disks/{part(intent)}", key=idempotency_key or new_key())
        return answer["task_id"]

    def delete_several(self, *, disks: Sequence[str], idempotency_key: str | None = None) -> int:
        """Delete kept disks and their data in one task. If a node uses one of them, none is deleted (409)."""
        answer: Accepted = self._api.call(
            "POST", "/v1/disks/delete", body={"disks": disks}, key=idempotency_key or new_key()
        )
        return answer["task_id"]

    def get(self, intent: str) -> Disk:
        answer: Disk = self._api.call("GET", f"/v1/disks/{part(intent)}")
        return answer

    def list(
        self,
        *,
        deployment: str | None = None,
        state: Literal["intended", "live", "unknown", "kept", "deleting"] | None = None,
        cloud: str | None = None,
    ) -> Pages[Disk]:
        return Pages(self._api, "/v1/disks", {"deployment": deployment, "state": state, "cloud": cloud})


class EventsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def list(
        self,
        *,
        kind: str | None = None,
        subject: str | None = None,
        deployment: str | None = None,
        without: str | None = None,
    ) -> Pages[Event]:
        """Newest first; the stream begins now, or after Last-Event-ID. Both are of the events that are
        wanted."""
        return Pages(
            self._api, "/v1/events", {"kind": kind, "subject": subject, "deployment": deployment, "without": without}
        )

    def of_task(self, task: int) -> Pages[Event]:
        """Oldest first. The stream's ids are the events' numbers in the task; its last event is `end` with
        the task."""
        return Pages(self._api, f"/v1/tasks/{task}/events", {})


class ExplainOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self, path: str) -> Explanation:
        answer: Explanation = self._api.call("GET", f"/v1/explain/{part(path)}")
        return answer


class GroupsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self, cid: str) -> GroupDetail:
        """With its members, and a fresh look through a conductor of its cloud."""
        answer: GroupDetail = self._api.call("GET", f"/v1/groups/{part(cid)}")
        return answer

    def list(
        self,
        *,
        deployment: str | None = None,
        cloud: str | None = None,
        name: str | None = None,
        state: Literal["intended", "live", "drifted", "missing", "deleting", "gone"] | None = None,
    ) -> Pages[Group]:
        """All that may be in a cloud; `state=gone` for deleted ones. `drifted`: not as created, see
        `drift`."""
        return Pages(self._api, "/v1/groups", {"deployment": deployment, "cloud": cloud, "name": name, "state": state})

    def repair(self, cid: str, *, idempotency_key: str | None = None) -> int:
        """Have the cloud create again what it lost of the group, for the VMs that belong to it."""
        answer: Accepted = self._api.call("POST", f"/v1/groups/{part(cid)}/repair", key=idempotency_key or new_key())
        return answer["task_id"]


class HealthOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def livez(self) -> str:
        """The process answers. Needs no token."""
        answer: str = self._api.call("GET", "/livez")
        return answer

    def metrics(self) -> str:
        answer: str = self._api.call("GET", "/metrics")
        return answer

    def readyz(self) -> str:
        """The ledger answers, and the process is not ending. Needs no token, and tells no more than that."""
        answer: str = self._api.call("GET", "/readyz")
        return answer


class KeysOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def list(self) -> Pages[Key]:
        """By group, newest first: credentials are sealed to the first of each group."""
        return Pages(self._api, "/v1/keys", {}, paged=False)

    def publish(self, *, conductor_group: str, public: str, idempotency_key: str | None = None) -> None:
        self._api.call(
            "POST",
            "/v1/keys",
            body={"conductor_group": conductor_group, "public": public},
            key=idempotency_key or new_key(),
        )

    def retire(self, key: str, *, conductor_group: str, idempotency_key: str | None = None) -> None:
        """Forget a key that was replaced. Refused (409) while properties of a cloud are sealed to it."""
        self._api.call(
            "POST",
            f"/v1/keys/{part(key)}/retire",
            body={"conductor_group": conductor_group},
            key=idempotency_key or new_key(),
        )


class LooksOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def look(
        self, *, deployment: str | None = None, node: str | None = None, idempotency_key: str | None = None
    ) -> int:
        """Look at once, as the periodic look does: it changes no VM."""
        answer: Accepted = self._api.call(
            "POST",
            "/v1/looks",
            body=without_none({"deployment": deployment, "node": node}),
            key=idempotency_key or new_key(),
        )
        return answer["task_id"]


class NodesOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def change(self, which: str, *, conductor_group: str | None, if_match: Match | None = None) -> NodeDetail:
        """Move a node to another conductor group; refused where no live conductor has its driver."""
        answer: NodeDetail = self._api.call(
            "PATCH", f"/v1/nodes/{parts(which)}", body={"conductor_group": conductor_group}, if_match=if_match
        )
        return answer

    def delete(self, which: str, *, destroy: bool | None = None, idempotency_key: str | None = None) -> int | None:
        """Forget an enrolled node; its machine stays, unless `destroy` is set (then 202 and a task)."""
        answer: Accepted = self._api.call(
            "DELETE", f"/v1/nodes/{parts(which)}", query={"destroy": destroy}, key=idempotency_key or new_key()
        )
        return answer["task_id"] if answer else None

    def enroll(
        self,
        *,
        cloud: str,
        cid: str,
        name: str | None = None,
        conductor_group: str | None = None,
        idempotency_key: str | None = None,
    ) -> NodeDetail:
        """Enroll an existing machine: it is shown and monitored, never recreated and never cleaned up."""
        answer: NodeDetail = self._api.call(
            "POST",
            "/v1/nodes",
            body={"cloud": cloud, "cid": cid, **without_none({"name": name, "conductor_group": conductor_group})},
            key=idempotency_key or new_key(),
        )
        return answer

    def get(self, which: str) -> NodeDetail:
        answer: NodeDetail = self._api.call("GET", f"/v1/nodes/{parts(which)}")
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
    ) -> Pages[Node]:
        """`conductor_group`: the group that the work of a node runs in, its own or its cloud's; an empty one
        is blank."""
        return Pages(
            self._api,
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
        )


class ObjectsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self, intent: str) -> CloudObject:
        answer: CloudObject = self._api.call("GET", f"/v1/objects/{part(intent)}")
        return answer

    def list(
        self,
        *,
        kind: str | None = None,
        state: Literal["intended", "live", "unknown", "kept", "deleting", "late", "gone"] | None = None,
        cloud: str | None = None,
        deployment: str | None = None,
    ) -> Pages[CloudObject]:
        return Pages(self._api, "/v1/objects", {"kind": kind, "state": state, "cloud": cloud, "deployment": deployment})

    def settle(self, intent: str, *, cid: str | None = None, idempotency_key: str | None = None) -> CloudObject:
        """Set the outcome of an object in doubt whose cloud cannot be searched for it."""
        answer: CloudObject = self._api.call(
            "POST",
            f"/v1/objects/{part(intent)}/settle",
            body=without_none({"cid": cid}),
            key=idempotency_key or new_key(),
        )
        return answer


class PlacementOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def audit(self, *, deployment: str | None = None) -> Placement:
        """Per server group: the promise, the hosts, whether it holds, what a host or rack failure would take
        down."""
        answer: Placement = self._api.call("GET", "/v1/placement", query={"deployment": deployment})
        return answer

    def show_map(
        self, *, deployment: str | None = None, rack: str | None = None, most: int | None = None
    ) -> PlacementMap:
        """All racks, hosts, nodes and groups as the ledger knows them: of the last look and check, without
        asking a cloud."""
        answer: PlacementMap = self._api.call(
            "GET", "/v1/placement/map", query={"deployment": deployment, "rack": rack, "most": most}
        )
        return answer


class PlansOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def make(
        self,
        *,
        text: Literal["none", "short", "detail"] | None = None,
        deployment: str | None = None,
        manifest: str | None = None,
        manifest_file: str | None = None,
        cloud_config: str | None = None,
        config_file: str | None = None,
        delete: bool | None = None,
        delete_disks: bool | None = None,
        recreate: bool | None = None,
        nodes: Sequence[str] | None = None,
        reuse_disks: bool | None = None,
        action: Literal["recreate", "restart", "stop", "start", "attach"] | None = None,
        max_in_flight: int | None = None,
        disk: str | None = None,
    ) -> Plan:
        """Refresh the facts, then plan. The ETag is the plan's id: a deploy that names it is refused once it
        is stale."""
        answer: Plan = self._api.call(
            "POST",
            "/v1/plans",
            query={"text": text},
            body=without_none(
                {
                    "deployment": deployment,
                    "manifest": manifest,
                    "manifest_file": manifest_file,
                    "cloud_config": cloud_config,
                    "config_file": config_file,
                    "delete": delete,
                    "delete_disks": delete_disks,
                    "recreate": recreate,
                    "nodes": nodes,
                    "reuse_disks": reuse_disks,
                    "action": action,
                    "max_in_flight": max_in_flight,
                    "disk": disk,
                }
            ),
            harmless=True,
        )
        return answer


class RecoveriesOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def apply(
        self,
        *,
        manifest: str,
        plan: str,
        manifest_file: str | None = None,
        cloud_config: str | None = None,
        config_file: str | None = None,
        idempotency_key: str | None = None,
    ) -> Recovery:
        """Write the records, if the clouds still show what was looked at (else 412). Changes no cloud."""
        answer: Recovery = self._api.call(
            "POST",
            "/v1/recoveries",
            body={
                "manifest": manifest,
                "plan": plan,
                **without_none(
                    {"manifest_file": manifest_file, "cloud_config": cloud_config, "config_file": config_file}
                ),
            },
            key=idempotency_key or new_key(),
        )
        return answer

    def plan(
        self,
        *,
        manifest: str,
        manifest_file: str | None = None,
        cloud_config: str | None = None,
        config_file: str | None = None,
    ) -> Recovery:
        """What the clouds hold of the deployment with the mark of this Director, and which of it can be
        taken."""
        answer: Recovery = self._api.call(
            "POST",
            "/v1/recoveries/plan",
            body={
                "manifest": manifest,
                **without_none(
                    {"manifest_file": manifest_file, "cloud_config": cloud_config, "config_file": config_file}
                ),
            },
            harmless=True,
        )
        return answer


class RingOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def explain(self, which: str) -> RingExplanation:
        """The conductor of one node, and why it is that one."""
        answer: RingExplanation = self._api.call("GET", f"/v1/ring/nodes/{parts(which)}")
        return answer

    def get(self) -> Rings:
        """Every ring: its members, and how many nodes each has."""
        answer: Rings = self._api.call("GET", "/v1/ring")
        return answer

    def what_if(self, *, without: Sequence[str] | None = None, with_: Sequence[str] | None = None) -> WhatIf:
        """How many nodes would move, and where, if conductors left or joined."""
        answer: WhatIf = self._api.call("GET", "/v1/ring/what-if", query={"without": without, "with": with_})
        return answer


class StemcellsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def add(
        self,
        *,
        name: str,
        version: str,
        cloud_properties: dict[str, Any],
        os: str | None = None,
        formats: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> Stemcell:
        """Upload a BOSH stemcell tarball (streamed), or describe a light stemcell as JSON. The same one again
        is fine."""
        answer: Stemcell = self._api.call(
            "POST",
            "/v1/stemcells",
            body={
                "name": name,
                "version": version,
                "cloud_properties": cloud_properties,
                **without_none({"os": os, "formats": formats}),
            },
            key=idempotency_key or new_key(),
        )
        return answer

    def delete(self, name: str, version: str) -> None:
        """Take it out of the stemcells. One that a cloud still holds an image of is refused (409)."""
        self._api.call("DELETE", f"/v1/stemcells/{part(name)}/{part(version)}")

    def get(self, name: str, version: str) -> Stemcell:
        answer: Stemcell = self._api.call("GET", f"/v1/stemcells/{part(name)}/{part(version)}")
        return answer

    def list(self) -> Pages[Stemcell]:
        return Pages(self._api, "/v1/stemcells", {})

    def upload(self, file: BinaryIO, *, idempotency_key: str | None = None) -> Stemcell:
        """Upload a BOSH stemcell tarball (streamed), or describe a light stemcell as JSON. The same one again
        is fine."""
        answer: Stemcell = self._api.call(
            "POST", "/v1/stemcells", body=file, media_type="application/gzip", key=idempotency_key or new_key()
        )
        return answer


class TargetsOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def list(
        self, *, port: int | None = None, deployment: str | None = None, network: str | None = None
    ) -> Sequence[Target]:
        """All nodes with an address, with `__meta_coterie_…` labels. Not paged: Prometheus reads one
        reply."""
        answer: Sequence[Target] = self._api.call(
            "GET", "/v1/targets", query={"port": port, "deployment": deployment, "network": network}
        )
        return answer


class TasksOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def cancel(self, task: int, *, idempotency_key: str | None = None) -> Task:
        """Start no new step; running steps end at their next pause. A task that has ended is left as it is
        (409)."""
        answer: Task = self._api.call("POST", f"/v1/tasks/{task}/cancel", key=idempotency_key or new_key())
        return answer

    def get(self, task: int) -> TaskDetail:
        """With its plan, stages and report, and the reasons why steps wait, computed now."""
        answer: TaskDetail = self._api.call("GET", f"/v1/tasks/{task}")
        return answer

    def list(
        self,
        *,
        deployment: str | None = None,
        state: Literal["running", "cancelling", "done", "failed", "cancelled"] | None = None,
        kind: str | None = None,
        without: str | None = None,
    ) -> Pages[Task]:
        """Newest first."""
        return Pages(
            self._api, "/v1/tasks", {"deployment": deployment, "state": state, "kind": kind, "without": without}
        )

    def steps(
        self,
        task: int,
        *,
        state: Literal["queued", "ready", "running", "done", "failed", "skipped", "cancelled"] | None = None,
    ) -> Pages[Step]:
        return Pages(self._api, f"/v1/tasks/{task}/steps", {"state": state})


class TokensOperations:
    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self, token: str) -> Token:
        answer: Token = self._api.call("GET", f"/v1/tokens/{part(token)}")
        return answer

    def list(self) -> Pages[Token]:
        return Pages(self._api, "/v1/tokens", {})

    def make(
        self,
        *,
        name: str,
        role: Literal["admin", "operator", "viewer"] | None = None,
        teams: Sequence[str] | None = None,
        days: int | None = None,
        idempotency_key: str | None = None,
    ) -> NewToken:
        """The only answer that ever holds the token itself (`text`): only its hash is stored. So a request
        that is repeated with its Idempotency-Key creates no second token; the answer (409) names the first
        one."""
        answer: NewToken = self._api.call(
            "POST",
            "/v1/tokens",
            body={"name": name, **without_none({"role": role, "teams": teams, "days": days})},
            key=idempotency_key or new_key(),
        )
        return answer

    def revoke(self, token: str) -> None:
        """From now on the token is refused."""
        self._api.call("DELETE", f"/v1/tokens/{part(token)}")

    def whoami(self) -> Me:
        """The caller as this Director sees it, and what it may do."""
        answer: Me = self._api.call("GET", "/v1/whoami")
        return answer
