// Command kubelet is kubelet's plugin manager with nothing of kubelet around it: it registers the
// plugins of one type in one directory, for a handler that accepts everything. The benchmark holds
// plugind against it.
//
//	kubelet DIR TYPE
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: kubelet DIR TYPE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	manager := pluginmanager.NewPluginManager(os.Args[1], record.NewFakeRecorder(0))
	manager.AddHandler(os.Args[2], acceptAll{})
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	manager.Run(ctx, ready, ctx.Done())
}

// acceptAll is a handler for which every plugin is right, and with which nothing is to be done.
type acceptAll struct{}

func (acceptAll) ValidatePlugin(string, string, []string) error { return nil }

func (acceptAll) RegisterPlugin(string, string, []string, *time.Duration) error { return nil }

func (acceptAll) DeRegisterPlugin(string, string) {}
