// Rsocket is four programs on sockets of rdma_cm, each with itself or with the stock program of its
// name, as server or as client.
//
//	rsocket rstream -T verify                 # on one host: waits
//	rsocket rstream -T verify -s HOST         # on the other, or: rstream -T v -s HOST
//
// Each has a file of its own; what they share is in options.go and socket.go: connecting, and three
// ways of waiting for a socket that is not ready.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/pureverbs/pureverbs/examples/program"
)

var programs = map[string]func(context.Context, *options, io.Writer) error{
	"rstream": rstream, "riostream": riostream, "rcopy": rcopy, "udpong": udpong,
}

const synopsis = `rsocket rstream [options]       a stream of bytes, back and forth
rsocket riostream [options]     writes into the memory of the peer, back and forth
rsocket rcopy [options]         copies a file
rsocket udpong [options]        datagrams, on InfiniBand only

With -h each of them lists its options.
`

func main() {
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if name == "-h" || name == "--help" {
		fmt.Fprint(os.Stderr, synopsis)
		return
	}
	run, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "rsocket: program %q: want one of these\n%s", name, synopsis)
		os.Exit(2)
	}
	parse := func(args []string) (*options, error) { return parse(name, args) }
	program.Main("rsocket "+name, os.Args[2:], parse, run)
}
