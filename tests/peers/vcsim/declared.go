package main

// What the API declares, generated from pyVmomi's own definitions (vcenter_types.py): a vCenter follows property paths
// along declared types only, and refuses data objects that lack a field which is not optional. The simulator does
// neither: it looks into the object that is really there.

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io/ioutil"
	"net/http"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

type field struct {
	Type     string `json:"type"`
	Many     bool   `json:"many"`
	Optional bool   `json:"optional"`
}

type definition struct {
	Base    string                      `json:"base"`
	Fields  map[string]field            `json:"fields"`
	Methods map[string]map[string]field `json:"methods"`
}

type declarations struct {
	Managed map[string]definition `json:"managed"`
	Data    map[string]definition `json:"data"`
	Enums   map[string][]string   `json:"enums"`
}

var declared declarations

func readDeclarations(path string) error {
	text, err := ioutil.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &declared)
}

// refusedRequest says whether a request breaks a declared type.
func refusedRequest(w http.ResponseWriter, method string, body []byte) bool {
	if len(declared.Managed) == 0 {
		return false
	}
	if path := undeclaredPath(method, body); path != "" {
		writeFault(w, "InvalidProperty", "<name>"+path+"</name>")
		return true
	}
	if wrong := undeclaredValue(method, body); wrong != "" {
		writeFault(w, "InvalidRequest", "<faultMessage><key>field</key><message>"+wrong+"</message></faultMessage>")
		return true
	}
	return false
}

// undeclaredPath is the first property path of a query that its declared types do not lead along.
func undeclaredPath(method string, body []byte) string {
	var specs []types.PropertyFilterSpec
	switch method {
	case "RetrieveProperties", "RetrievePropertiesEx", "CreateFilter":
	default:
		return ""
	}
	decoded, err := simulator.UnmarshalBody(types.TypeFunc(), body)
	if err != nil {
		return ""
	}
	switch request := decoded.Body.(type) {
	case *types.RetrieveProperties:
		specs = request.SpecSet
	case *types.RetrievePropertiesEx:
		specs = request.SpecSet
	case *types.CreateFilter:
		specs = []types.PropertyFilterSpec{request.Spec}
	}
	for _, spec := range specs {
		for _, set := range spec.PropSet {
			for _, path := range set.PathSet {
				if !leads(set.Type, path) {
					return path
				}
			}
		}
		for _, object := range spec.ObjectSet {
			for _, one := range object.SelectSet {
				if step, ok := one.(*types.TraversalSpec); ok && !leads(step.Type, step.Path) {
					return step.Path
				}
			}
		}
	}
	return ""
}

func leads(kind, path string) bool {
	for _, name := range strings.Split(path, ".") {
		name = strings.SplitN(name, "[", 2)[0]
		found, ok := declared.find(declared.Managed, kind, name)
		if !ok {
			found, ok = declared.find(declared.Data, kind, name)
		}
		if !ok {
			return false
		}
		kind = found.Type
	}
	return true
}

// find is a field of a type or of those above it; never of those below it.
func (d declarations) find(table map[string]definition, kind, name string) (field, bool) {
	for kind != "" {
		if one, ok := table[kind].Fields[name]; ok {
			return one, true
		}
		kind = table[kind].Base
	}
	return field{}, false
}

type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
	Text     string     `xml:",chardata"`
}

// undeclaredValue says which field of a request is missing, or has a value that its enumeration does not have.
func undeclaredValue(method string, body []byte) string {
	var envelope element
	if xml.NewDecoder(bytes.NewReader(body)).Decode(&envelope) != nil {
		return ""
	}
	for _, part := range envelope.Children {
		if part.XMLName.Local != "Body" || len(part.Children) != 1 {
			continue
		}
		for kind := this(body).Type; kind != ""; kind = declared.Managed[kind].Base {
			if parameters, ok := declared.Managed[kind].Methods[method]; ok {
				return check(part.Children[0], parameters)
			}
		}
	}
	return ""
}

func check(at element, fields map[string]field) string {
	present := map[string]bool{}
	for _, child := range at.Children {
		present[child.XMLName.Local] = true
		if one, ok := fields[child.XMLName.Local]; ok {
			if wrong := checkValue(child, one.Type); wrong != "" {
				return wrong
			}
		}
	}
	for name, one := range fields {
		if !one.Optional && !one.Many && !present[name] {
			return at.XMLName.Local + "." + name + " is missing"
		}
	}
	return ""
}

func checkValue(at element, kind string) string {
	for _, attr := range at.Attrs {
		if attr.Name.Local == "type" && strings.Contains(attr.Name.Space, "XMLSchema-instance") {
			kind = attr.Value[strings.Index(attr.Value, ":")+1:]
		}
	}
	if values, ok := declared.Enums[kind]; ok && !contains(values, at.Text) {
		return at.XMLName.Local + " is " + at.Text
	}
	if _, ok := declared.Data[kind]; !ok {
		return ""
	}
	fields := map[string]field{}
	for ; kind != ""; kind = declared.Data[kind].Base {
		for name, one := range declared.Data[kind].Fields {
			fields[name] = one
		}
	}
	return check(at, fields)
}
