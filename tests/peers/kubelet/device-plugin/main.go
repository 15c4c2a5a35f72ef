// Command device-plugin is the device plugin that kubelet's own tests use. It registers with
// kubelet.sock, and again when that socket is created anew: ten seconds later, as it always does.
//
//	device-plugin DIR RESOURCE SOCKET DEVICE...
//
// SOCKET is the name of its socket in DIR.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: device-plugin DIR RESOURCE SOCKET DEVICE...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir, resource, socket string, ids []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	var devices []*api.Device
	for _, id := range ids {
		devices = append(devices, &api.Device{ID: id, Health: api.Healthy})
	}
	logger := klog.Background()
	kubelet := filepath.Join(dir, "kubelet.sock")
	stub := plugin.NewDevicePluginStub(logger, devices, filepath.Join(dir, socket), resource, false, false)
	if err := stub.Start(ctx); err != nil {
		return err
	}
	// The plugins registry is offered instead if the directory has a file named DEPRECATION.
	if err := stub.Register(ctx, kubelet, resource, dir+"/"); err != nil {
		return err
	}
	go stub.Watch(ctx, kubelet, resource, dir+"/")
	<-ctx.Done()
	return stub.Stop(logger)
}
