// A plugin on one of Go's two gRPC stacks, and a client of one:
//
//	stacks grpc-go|connect-go serve SOCKET CASE
//	stacks grpc-go|connect-go call SOCKET CASE
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: stacks grpc-go|connect-go serve|call SOCKET CASE")
		os.Exit(2)
	}
	run := map[string]func(string, string){
		"grpc-go serve": serveGrpc, "grpc-go call": callGrpc,
		"connect-go serve": serveConnect, "connect-go call": callConnect,
	}[os.Args[1]+" "+os.Args[2]]
	run(os.Args[3], os.Args[4])
}

func split(path string) (dir, file string) {
	return filepath.Dir(path), filepath.Base(path)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
