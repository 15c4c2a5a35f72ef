// Command device-manager is the registration server of kubelet's device manager without the rest of
// kubelet: device plugins register with it, and it prints a line for each thing that happens to one.
//
//	device-manager DIR
//
// The peers in tests/device_plugins are tried with it first: a peer that kubelet does not understand
// proves nothing about plugind.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	server "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: device-manager DIR")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	logger := klog.Background()
	socket := filepath.Join(os.Args[1], "kubelet.sock")
	registration, err := server.NewServer(logger, socket, printer{}, printer{})
	if err == nil {
		err = registration.Start(logger)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening", socket)
	<-ctx.Done()
	// kubelet ends without a word as well: kubelet.sock stays behind.
}

// printer does with plugins what kubelet's device manager does, and prints it.
type printer struct{}

// CleanupPluginDirectory removes the sockets of the directory, as kubelet's device manager does. That
// itself would bring half of kubelet with it.
func (printer) CleanupPluginDirectory(_ klog.Logger, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		stat, err := os.Stat(path)
		if err != nil || stat.Mode()&os.ModeSocket == 0 {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func (printer) PluginConnected(ctx context.Context, resource string, plugin server.DevicePlugin) error {
	if _, err := plugin.API().GetDevicePluginOptions(ctx, &api.Empty{}); err != nil {
		return fmt.Errorf("failed to get device plugin options: %v", err)
	}
	fmt.Println("connected", resource, filepath.Base(plugin.SocketPath()))
	return nil
}

func (printer) PluginDisconnected(_ klog.Logger, resource, _ string) {
	fmt.Println("disconnected", resource)
}

func (printer) PluginListAndWatchReceiver(_ klog.Logger, resource string, list *api.ListAndWatchResponse) {
	var devices []string
	for _, device := range list.Devices {
		devices = append(devices, device.ID+"="+device.Health)
	}
	fmt.Println("devices", resource, strings.Join(devices, ","))
}
