package main

// Privileges, enforced: the simulator grants everything to everybody. What counts are the roles and permissions
// that were really written to it, on the object or on one above it with propagation.

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

const root = "root" // who may do everything

var (
	enforced  bool
	entityRef = regexp.MustCompile(`<entity[^>]*type="(\w+)"[^>]*>([^<]*)`)
)

// A method, and the privilege that a vCenter wants for it on the object that is called.
var wanted = map[string]string{
	"ReconfigureComputeResource_Task": "Host.Inventory.EditCluster",
	"CreateFolder":                    "Folder.Create",
	"PowerOnVM_Task":                  "VirtualMachine.Interact.PowerOn",
	"PowerOffVM_Task":                 "VirtualMachine.Interact.PowerOff",
	"ResetVM_Task":                    "VirtualMachine.Interact.Reset",
	"CreateVM_Task":                   "VirtualMachine.Inventory.Create",
	"MarkAsTemplate":                  "VirtualMachine.Provisioning.MarkAsTemplate",
	"CloneVM_Task":                    "VirtualMachine.Provisioning.DeployTemplate",
	"ImportVApp":                      "VApp.Import",
	"AddCustomFieldDef":               "Global.ManageCustomFields",
	"SetField":                        "Global.SetCustomField",
	"AddAuthorizationRole":            "Authorization.ModifyRoles",
	"UpdateAuthorizationRole":         "Authorization.ModifyRoles",
	"SetEntityPermissions":            "Authorization.ModifyPermissions",
}

func denied(w http.ResponseWriter, user, method string, body []byte) bool {
	privilege := wanted[method]
	target := judged(body)
	if !enforced || privilege == "" || user == "" || granted(user, privilege, target) {
		return false
	}
	writeFault(w, "NoPermission", fmt.Sprintf("<object type=\"%s\">%s</object><privilegeId>%s</privilegeId>",
		target.Type, target.Value, privilege))
	return true
}

// judged is the object whose permissions count: the entity that a manager is told, or the root folder for the manager.
func judged(body []byte) ref {
	if found := entityRef.FindSubmatch(body); found != nil {
		return ref{Type: string(found[1]), Value: string(found[2])}
	}
	target := this(body)
	if _, ok := registry().Get(target).(mo.Entity); !ok {
		return content().RootFolder
	}
	return target
}

func granted(user, privilege string, target ref) bool {
	if user == root {
		return true
	}
	roles := map[int32][]string{}
	for _, role := range authorization().RoleList {
		roles[role.RoleId] = role.Privilege
	}
	for at, direct := target, true; ; direct = false {
		if role, found := permission(user, at, direct); found {
			return contains(roles[role], privilege)
		}
		above := parent(at)
		if above == nil {
			return false
		}
		at = *above
	}
}

func authorization() *simulator.AuthorizationManager {
	return registry().Get(*content().AuthorizationManager).(*simulator.AuthorizationManager)
}

func content() types.ServiceContent {
	service := registry().Get(ref{Type: "ServiceInstance", Value: "ServiceInstance"})
	return service.(*simulator.ServiceInstance).Content
}

func permission(user string, at ref, direct bool) (int32, bool) {
	if _, ok := registry().Get(at).(mo.Entity); !ok {
		return 0, false
	}
	for _, one := range permissions(at) {
		if one.Principal == user && (direct || one.Propagate) {
			return one.RoleId, true
		}
	}
	return 0, false
}

func parent(at ref) *ref {
	if entity, ok := registry().Get(at).(mo.Entity); ok {
		return entity.Entity().Parent
	}
	return nil
}

func contains(list []string, wanted string) bool {
	for _, one := range list {
		if one == wanted {
			return true
		}
	}
	return false
}

func answerPrivileges(w http.ResponseWriter, user string, body []byte) bool {
	decoded, err := simulator.UnmarshalBody(types.TypeFunc(), body)
	if !enforced || err != nil {
		return false
	}
	request, ok := decoded.Body.(*types.HasPrivilegeOnEntities)
	if !ok {
		return false
	}
	var told strings.Builder
	for _, entity := range request.Entity {
		fmt.Fprintf(&told, "<returnval><entity type=\"%s\">%s</entity>", entity.Type, entity.Value)
		for _, privilege := range request.PrivId {
			fmt.Fprintf(&told, "<privAvailability><privId>%s</privId><isGranted>%t</isGranted></privAvailability>",
				privilege, granted(user, privilege, entity))
		}
		told.WriteString("</returnval>")
	}
	writeAnswer(w, "<HasPrivilegeOnEntitiesResponse xmlns=\"urn:vim25\">"+told.String()+"</HasPrivilegeOnEntitiesResponse>")
	return true
}
