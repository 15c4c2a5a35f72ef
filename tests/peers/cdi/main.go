// Loads the files of a CDI directory with the library of the CDI project, injects devices into an
// empty OCI specification, and prints that.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(os.Args[1]), cdi.WithAutoRefresh(false))
	if err != nil {
		fail(err)
	}
	for path, errs := range cache.GetErrors() {
		fail(path, errs)
	}
	if len(os.Args) == 2 {
		for _, name := range cache.ListDevices() {
			fmt.Println(name)
		}
		return
	}
	spec := &oci.Spec{}
	if unresolved, err := cache.InjectDevices(spec, os.Args[2:]...); err != nil {
		fail(unresolved, err)
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		fail(err)
	}
	fmt.Println(string(text))
}

func fail(why ...any) {
	fmt.Fprintln(os.Stderr, why...)
	os.Exit(1)
}
