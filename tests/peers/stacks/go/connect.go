package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// serveConnect serves the plugin with connect-go, on the HTTP/2 server of Go's library.
func serveConnect(path, name string) {
	p := newPlugin(name)
	server := &http.Server{Protocols: unencrypted(), HTTP2: &http.HTTP2Config{}}
	switch name {
	case "pings":
		server.HTTP2.SendPingTimeout, server.HTTP2.PingTimeout = time.Second, time.Second
	case "windows-small":
		server.HTTP2.MaxReceiveBufferPerConnection, server.HTTP2.MaxReceiveBufferPerStream = 65536, 1024
	case "windows-large":
		server.HTTP2.MaxReceiveBufferPerConnection, server.HTTP2.MaxReceiveBufferPerStream = 1<<28, 1<<28
	case "no-table":
		server.HTTP2.MaxDecoderHeaderTableSize, server.HTTP2.MaxEncoderHeaderTableSize = 1, 1
	case "one-stream":
		server.HTTP2.MaxConcurrentStreams = 1
	case "age", "age-grace", "policy":
		notSupported()
	}
	mux := http.NewServeMux()
	options := []connect.HandlerOption{connect.WithCodec(raw{})}
	if name == "compressed" {
		options = append(options, connect.WithCompressMinBytes(0))
	}
	for _, method := range unary {
		mux.Handle(method, connect.NewUnaryHandler(method, p.handleConnect(name, method), options...))
	}
	for _, method := range streams {
		mux.Handle(method, connect.NewServerStreamHandler(method,
			func(ctx context.Context, _ *connect.Request[[]byte], stream *connect.ServerStream[[]byte]) error {
				send := func(message []byte) error { return stream.Send(&message) }
				_, err := p.watch(method, ctx.Done(), send)
				return err
			}, options...))
	}
	server.Handler = mux
	listener, err := net.Listen("unix", path)
	check(err)
	if name == "announce" {
		go announceGrpc(path)
	}
	ended := make(chan struct{})
	go func() {
		<-p.stopped
		check(server.Shutdown(context.Background())) // A GOAWAY while streams are open.
		close(ended)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		check(err)
	}
	<-ended
}

func (p *plugin) handleConnect(name, method string) func(context.Context, *connect.Request[[]byte]) (*connect.Response[[]byte], error) {
	return func(_ context.Context, request *connect.Request[[]byte]) (*connect.Response[[]byte], error) {
		if name == "details" && p.fail(method) {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("not yet"))
		}
		answer, _ := p.answer(method, *request.Msg)
		response := connect.NewResponse(&answer)
		if name == "metadata" {
			response.Header().Set("x-large", strings.Repeat("m", 20<<10))
		}
		return response, nil
	}
}

// callConnect calls a simulated plugin, and prints what it has listed.
func callConnect(path, name string) {
	dialer := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer, Protocols: unencrypted()}}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	of := func(method string) *connect.Client[[]byte, []byte] {
		return connect.NewClient[[]byte, []byte](client, "http://localhost"+method, connect.WithGRPC(), connect.WithCodec(raw{}))
	}
	call := func(method string, request []byte) []byte {
		response, err := of(method).CallUnary(ctx, connect.NewRequest(&request))
		check(err)
		return *response.Msg
	}
	info := call("/pluginregistration.Registration/GetInfo", nil)
	call("/pluginregistration.Registration/NotifyRegistrationStatus", []byte{8, 1})
	call("/v1beta1.DevicePlugin/Allocate", field(1, text(1, "device-0")))
	var request []byte
	stream, err := of("/v1beta1.DevicePlugin/ListAndWatch").CallServerStream(ctx, connect.NewRequest(&request))
	check(err)
	fmt.Println("called", stream.Receive() && len(info) > 0 && len(*stream.Msg()) > 0)
}

func unencrypted() *http.Protocols {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return protocols
}

var unary = []string{
	"/pluginregistration.Registration/GetInfo",
	"/pluginregistration.Registration/NotifyRegistrationStatus",
	"/csi.v1.Identity/Probe",
	"/csi.v1.Node/NodeGetInfo",
	"/v1beta1.DevicePlugin/GetDevicePluginOptions",
	"/v1beta1.DevicePlugin/Allocate",
}

var streams = []string{
	"/v1beta1.DevicePlugin/ListAndWatch",
	"/v1alpha1.DRAResourceHealth/NodeWatchResources",
}
