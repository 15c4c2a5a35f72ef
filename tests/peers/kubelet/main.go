// Command kubelet is kubelet's plugin manager without the rest of kubelet: it registers the plugins
// of one type in one directory, for a handler that accepts everything. The benchmark compares
// plugind with it.
//
//	kubelet DIR TYPE [record]
//
// With "record", the handler prints a line for each of its calls, and refuses plugins by their names:
// the scenarios in tests/parity compare plugind with that.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

func main() {
	records := len(os.Args) == 4 && os.Args[3] == "record"
	if len(os.Args) != 3 && !records {
		fmt.Fprintln(os.Stderr, "usage: kubelet DIR TYPE [record]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	manager := pluginmanager.NewPluginManager(os.Args[1], record.NewFakeRecorder(0))
	if records {
		manager.AddHandler(os.Args[2], &recorder{refused: map[string]bool{}})
	} else {
		manager.AddHandler(os.Args[2], acceptAll{})
	}
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	manager.Run(ctx, ready, ctx.Done())
}

// acceptAll is a handler that accepts every plugin and does nothing.
type acceptAll struct{}

func (acceptAll) ValidatePlugin(context.Context, string, string, []string) error { return nil }

func (acceptAll) RegisterPlugin(context.Context, string, string, []string, *time.Duration) error {
	return nil
}

func (acceptAll) DeRegisterPlugin(context.Context, string, string) {}

// recorder is a handler that records its calls. tests/parity/subject.rs has the same.
type recorder struct {
	mutex sync.Mutex
	// refused holds the names that were refused once.
	refused map[string]bool
}

func (r *recorder) ValidatePlugin(_ context.Context, name, endpoint string, versions []string) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	fmt.Println("validate", name, endpoint, strings.Join(versions, ","))
	if strings.HasPrefix(name, "invalid") {
		return errors.New("it is not acceptable")
	}
	return nil
}

func (r *recorder) RegisterPlugin(
	_ context.Context, name, endpoint string, versions []string, _ *time.Duration,
) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	fmt.Println("register", name, endpoint, strings.Join(versions, ","))
	isFirst := strings.HasPrefix(name, "once") && !r.refused[name]
	r.refused[name] = true
	if isFirst || strings.HasPrefix(name, "refused") {
		return errors.New("it cannot be used")
	}
	return nil
}

func (r *recorder) DeRegisterPlugin(_ context.Context, name, endpoint string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	fmt.Println("deregister", name, endpoint)
}
