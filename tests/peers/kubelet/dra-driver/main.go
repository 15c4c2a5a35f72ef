// A DRA driver on kubelet's helper library, as drivers in use are:
//
//	dra-driver REGISTRY DATA NAME
//
// It reports the health of one device, and ends at SIGTERM. It has a Kubernetes API of its own, which
// is empty.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

type driver struct{}

func (driver) PrepareResourceClaims(context.Context, []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	return nil, nil
}

func (driver) UnprepareResourceClaims(context.Context, []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	return nil, nil
}

func (driver) HandleError(_ context.Context, err error, message string) {
	fmt.Fprintln(os.Stderr, message, err)
}

func (driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	device := kubeletplugin.DeviceHealth{PoolName: "pool", DeviceName: "device-0", Health: kubeletplugin.HealthStatusHealthy}
	select {
	case reports <- kubeletplugin.DeviceHealthReport{Devices: []kubeletplugin.DeviceHealth{device}}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return ctx.Err()
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: dra-driver REGISTRY DATA NAME")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	helper, err := kubeletplugin.Start(ctx, driver{},
		kubeletplugin.DriverName(os.Args[3]),
		kubeletplugin.KubeClient(fake.NewClientset()),
		kubeletplugin.NodeName("node-1"),
		kubeletplugin.RegistrarDirectoryPath(os.Args[1]),
		kubeletplugin.PluginDataDirectoryPath(os.Args[2]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("started")
	<-ctx.Done()
	helper.Stop()
}
