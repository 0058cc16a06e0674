// Rsocket is four programs on sockets of rdma_cm, each with itself or with the stock program of its
// name, as server or as client.
//
//	rsocket rstream -T verify                 # on one host: waits
//	rsocket rstream -T verify -s HOST         # on the other, or: rstream -T v -s HOST
//
// What they share is in socket.go: connecting, and three ways of waiting for a socket that is not ready.
package main

import (
	"errors"
	"math"
	"os"
	"strings"

	"github.com/pureverbs/pureverbs/examples/program"
)

var programs = map[string]func(*program.Run){
	"rstream": rstream, "riostream": riostream, "rcopy": rcopy, "udpong": udpong,
}

const synopsis = `rsocket rstream [options]       a stream of bytes, back and forth
rsocket riostream [options]     writes into the memory of the peer, back and forth
rsocket rcopy [options]         copies a file
rsocket udpong [options]        datagrams, on InfiniBand only

With -h each of them lists its options.
`

func main() {
	command, name := "rsocket", ""
	if len(os.Args) > 1 && programs[os.Args[1]] != nil {
		name = os.Args[1]
		command += " " + name
	}
	program.Main(command, func(args []string) error { return parse(name, args) }, programs[name])
}

// flags are those of all four programs.
var flags struct {
	program.Ends
	test    map[string]bool // what -T says
	buffer  int             // bytes, each way; 0 is the library's own choice
	timeout program.Timeout

	iterations, count, size int
	directory, source, dest string // of rcopy
}

// parse reads the command line of a program.
func parse(name string, args []string) error {
	flags.test, flags.timeout.Lossy = map[string]bool{}, true
	if name == "" {
		_ = program.NewFlags(synopsis).Parse(args)
		return errors.New("want rstream, riostream, rcopy or udpong")
	}
	var f *program.Flags
	switch name {
	case "rcopy":
		f = program.NewFlags("rsocket rcopy -d DIRECTORY [options]\nrsocket rcopy FILE HOST[:NAME] [options]\n")
		f.MaxArgs = 2
		flags.LocalFlags(f, "7427")
		f.StringVarP(&flags.directory, "directory", "d", ".", "where a server writes")
	case "udpong":
		f = flags.NewFlags("rsocket udpong", "7174")
		f.Int(&flags.count, "count", "C", 1000, 1, math.MaxInt32, "`number` of datagrams of a client")
		f.Int(&flags.size, "size", "S", 1000, control, largest, "`bytes` in a datagram of a client")
		words(f, "async", "echo", "nonblocking")
	default:
		f = flags.NewFlags("rsocket "+name, "7471")
		f.Int(&flags.iterations, "iterations", "I", 1, 1, math.MaxInt32, "`number` of times, the same on both sides")
		f.Int(&flags.count, "count", "C", 1000, 1, math.MaxInt32, "`number` of transfers each time, the same on both sides")
		f.Int(&flags.size, "size", "S", 1000, 1, 1<<30, "`bytes` in a transfer, the same on both sides")
		words(f, "async", "blocking", "nonblocking", "verify")
	}
	f.Int(&flags.buffer, "buffer", "B", 512<<10, 0, 1<<30, "`bytes` of the buffers for sending and for receiving")
	f.Timeout(&flags.timeout, "longest `time` without a reply")
	err := f.Parse(args)
	if err == nil && f.NArg() > 0 {
		err = files(f.Args())
	}
	return err
}

// words adds -T, which may be repeated: words, or their first letters.
func words(f *program.Flags, names ...string) {
	want := strings.Join(names, ", ")
	f.FuncP("test", "T", "`what` to do: "+want+"; may be repeated", func(s string) error {
		for _, name := range names {
			if s == name || s == name[:1] {
				flags.test[name] = true
				return nil
			}
		}
		return errors.New("want one of " + want)
	})
}
