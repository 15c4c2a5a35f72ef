package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// serveGrpc serves the plugin with grpc-go.
func serveGrpc(path, name string) {
	p := newPlugin(name)
	options := append(grpcOptions(name), grpc.ForceServerCodec(raw{}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			return p.handleGrpc(name, stream)
		}))
	server := grpc.NewServer(options...)
	go func() {
		<-p.stopped
		server.GracefulStop()
	}()
	listener, err := net.Listen("unix", path)
	check(err)
	if name == "announce" {
		go announceGrpc(path)
	}
	check(server.Serve(listener))
}

// grpcOptions returns what a case changes.
func grpcOptions(name string) []grpc.ServerOption {
	age := keepalive.ServerParameters{MaxConnectionAge: time.Second}
	switch name {
	case "age":
		age.MaxConnectionAgeGrace = time.Millisecond
		return []grpc.ServerOption{grpc.KeepaliveParams(age)}
	case "age-grace":
		age.MaxConnectionAgeGrace = time.Second
		return []grpc.ServerOption{grpc.KeepaliveParams(age)}
	case "pings":
		pings := keepalive.ServerParameters{Time: time.Second, Timeout: time.Second}
		return []grpc.ServerOption{grpc.KeepaliveParams(pings)}
	case "policy":
		policy := keepalive.EnforcementPolicy{MinTime: time.Hour}
		return []grpc.ServerOption{grpc.KeepaliveEnforcementPolicy(policy)}
	case "windows-small":
		return []grpc.ServerOption{grpc.StaticStreamWindowSize(65535), grpc.StaticConnWindowSize(65535)}
	case "windows-large":
		return []grpc.ServerOption{grpc.StaticStreamWindowSize(1 << 30), grpc.StaticConnWindowSize(1 << 30)}
	case "no-table":
		return []grpc.ServerOption{grpc.HeaderTableSize(0)}
	case "one-stream":
		return []grpc.ServerOption{grpc.MaxConcurrentStreams(1)}
	case "compressed":
		return []grpc.ServerOption{grpc.RPCCompressor(grpc.NewGZIPCompressor())}
	}
	return nil
}

func (p *plugin) handleGrpc(name string, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	if name == "details" && p.fail(method) {
		failure, err := status.New(codes.Unavailable, "not yet").WithDetails(&emptypb.Empty{})
		check(err)
		return failure.Err()
	}
	if name == "metadata" {
		large := metadata.Pairs("x-large", strings.Repeat("m", 20<<10))
		check(stream.SetHeader(large))
	}
	send := func(message []byte) error { return stream.SendMsg(&message) }
	if answer, isKnown := p.answer(method, request); isKnown {
		return send(answer)
	}
	isKnown, err := p.watch(method, stream.Context().Done(), send)
	if !isKnown {
		return status.Error(codes.Unimplemented, method)
	}
	return err
}

// announceGrpc calls Register on the kubelet.sock beside the plugin's socket.
func announceGrpc(path string) {
	dir, file := split(path)
	connection := dial(dir + "/kubelet.sock")
	request := join(text(1, "v1beta1"), text(2, file), text(3, "example.com/peer"))
	var response []byte
	err := connection.Invoke(context.Background(), "/v1beta1.Registration/Register", &request, &response)
	check(err)
	fmt.Println("notified true")
}

// callGrpc calls a simulated plugin, and prints what it has listed.
func callGrpc(path, name string) {
	connection := dial(path)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	call := func(method string, request []byte) []byte {
		var response []byte
		check(connection.Invoke(ctx, method, &request, &response))
		return response
	}
	info := call("/pluginregistration.Registration/GetInfo", nil)
	call("/pluginregistration.Registration/NotifyRegistrationStatus", []byte{8, 1})
	call("/v1beta1.DevicePlugin/Allocate", field(1, text(1, "device-0")))
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/v1beta1.DevicePlugin/ListAndWatch")
	check(err)
	var request, list []byte
	check(stream.SendMsg(&request))
	check(stream.CloseSend())
	check(stream.RecvMsg(&list))
	fmt.Println("called", len(info) > 0 && len(list) > 0)
}

func dial(path string) *grpc.ClientConn {
	connection, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	check(err)
	return connection
}
