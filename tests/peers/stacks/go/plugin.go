// What both stacks answer: messages written by hand, so that no generated code is needed.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// plugin is what a server answers, and what it is told on its standard input.
type plugin struct {
	lock    sync.Mutex
	changed chan struct{} // Closed when the device was broken.
	stopped chan struct{} // Closed when the server has to end.
	count   int           // The number of devices.
	asked   int           // The number of GetInfo calls.
	kind    string        // The type of the plugin.
	name    string
	version string
}

func newPlugin(name string) *plugin {
	p := &plugin{changed: make(chan struct{}), stopped: make(chan struct{}), count: 2}
	p.kind, p.name, p.version = "DevicePlugin", "example.com/peer", "v1beta1"
	switch name {
	case "csi":
		p.kind, p.name, p.version = "CSIPlugin", "csi.example.com", "1.0.0"
	case "dra":
		p.kind, p.name, p.version = "DRAPlugin", "dra.example.com", "v1.DRAPlugin"
	case "many", "windows-small", "windows-large":
		p.count = 10000
	}
	if name == "pings" || name == "policy" {
		time.AfterFunc(3*time.Second, func() { close(p.changed) })
	}
	go p.read()
	return p
}

// read follows the standard input: `change` breaks a device, `stop` and its end stop the plugin.
func (p *plugin) read() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "change":
			close(p.changed)
		case "stop":
			close(p.stopped)
			return
		}
	}
	os.Exit(0)
}

// answer returns the response to a unary call, or false for an unknown method.
func (p *plugin) answer(method string, request []byte) ([]byte, bool) {
	switch method {
	case "/pluginregistration.Registration/GetInfo":
		return join(text(1, p.kind), text(2, p.name), text(4, p.version), p.health()), true
	case "/pluginregistration.Registration/NotifyRegistrationStatus":
		if len(request) > 1 && request[0] == 8 && request[1] == 1 {
			fmt.Println("notified true")
		} else {
			fmt.Printf("notified false %q\n", request)
		}
		return nil, true
	case "/csi.v1.Identity/Probe":
		return field(1, []byte{8, 1}), true
	case "/csi.v1.Node/NodeGetInfo":
		return join(text(1, "node-1"), []byte{2 << 3, 8}), true
	case "/v1beta1.DevicePlugin/GetDevicePluginOptions":
		return nil, true
	case "/v1beta1.DevicePlugin/Allocate":
		return field(1, field(1, join(text(1, "PEER"), text(2, "1")))), true
	}
	return nil, false
}

// health returns the further version of a DRA driver, which reports the health of its devices.
func (p *plugin) health() []byte {
	if p.kind != "DRAPlugin" {
		return nil
	}
	return text(4, "v1alpha1.DRAResourceHealth")
}

// watch sends the devices, and sends them again when one is broken, until the call or the plugin
// ends. It returns false for an unknown method.
func (p *plugin) watch(method string, done <-chan struct{}, send func([]byte) error) (bool, error) {
	var message func(isHealthy bool) []byte
	switch method {
	case "/v1beta1.DevicePlugin/ListAndWatch":
		message = p.devices
	case "/v1alpha1.DRAResourceHealth/NodeWatchResources":
		message = draDevice
	default:
		return false, nil
	}
	fmt.Println("watched")
	select {
	case <-p.changed:
	default:
		if err := send(message(true)); err != nil {
			return true, err
		}
	}
	select {
	case <-p.changed:
		if err := send(message(false)); err != nil {
			return true, err
		}
	case <-done:
	case <-p.stopped:
	}
	select {
	case <-done:
	case <-p.stopped:
	}
	return true, nil
}

// devices returns the message of ListAndWatch.
func (p *plugin) devices(isHealthy bool) []byte {
	var message []byte
	for at := range p.count {
		health := "Healthy"
		if at == 1 && !isHealthy {
			health = "Unhealthy"
		}
		device := join(text(1, fmt.Sprintf("device-%d", at)), text(2, health))
		message = append(message, field(1, device)...)
	}
	return message
}

// draDevice returns the message of NodeWatchResources, with one device.
func draDevice(isHealthy bool) []byte {
	health := byte(1)
	if !isHealthy {
		health = 2
	}
	id := join(text(1, "pool"), text(2, "device-1"))
	return field(1, join(field(1, id), []byte{2 << 3, health}))
}

// fail returns whether this call of GetInfo is the first one, which fails in the case `details`.
func (p *plugin) fail(method string) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	if strings.HasSuffix(method, "/GetInfo") {
		p.asked++
		return p.asked == 1
	}
	return false
}

func text(number int, value string) []byte {
	return field(number, []byte(value))
}

// field returns a field of a message whose value is text or a message.
func field(number int, value []byte) []byte {
	head := binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(value)))
	return append(head, value...)
}

func join(parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// raw is a codec that leaves messages as they are.
type raw struct{}

// Name returns the name that stands in the content type: the messages are Protocol Buffers.
func (raw) Name() string { return "proto" }

func (raw) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (raw) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// notSupported ends the program with the status that means so.
func notSupported() {
	os.Exit(64)
}
