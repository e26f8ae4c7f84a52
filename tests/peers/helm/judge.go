// Reads documents of Kubernetes from standard input, as strictly as its own types allow: an unknown field, a value of
// another type and a field that is there twice are errors. Prints each object as KIND NAME.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	reader := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fail(err, "")
		}
		object, kind, err := decoder.Decode(text, nil, nil)
		if err != nil {
			fail(err, string(text))
		}
		named, err := meta.Accessor(object)
		if err != nil {
			fail(err, string(text))
		}
		fmt.Println(kind.Kind, named.GetName())
	}
}

func fail(err error, text string) {
	fmt.Fprintln(os.Stderr, err)
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
