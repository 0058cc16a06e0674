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

var programs = map[string]func(*program.Run, *options){
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
	var o *options
	program.Main(command, func(args []string) (err error) {
		o, err = parse(name, args)
		return err
	}, func(r *program.Run) { programs[name](r, o) })
}

// options are those of all four programs.
type options struct {
	program.Ends
	test    map[string]bool // what -T says
	buffer  int             // bytes, each way; 0 is the library's own choice
	timeout program.Timeout

	iterations, count, size int
	directory, source, dest string // of rcopy
}

// parse reads the command line of a program.
func parse(name string, args []string) (*options, error) {
	o := &options{test: map[string]bool{}, timeout: program.Timeout{Lossy: true}}
	if name == "" {
		_ = program.NewFlags(synopsis).Parse(args, len(args))
		return nil, errors.New("want rstream, riostream, rcopy or udpong")
	}
	var f *program.Flags
	mostArgs := 0
	switch name {
	case "rcopy":
		mostArgs = 2
		f = program.NewFlags("rsocket rcopy -d DIRECTORY [options]\nrsocket rcopy FILE HOST[:NAME] [options]\n")
		o.LocalFlags(f, "7427")
		f.StringVarP(&o.directory, "directory", "d", ".", "where a server writes")
	case "udpong":
		f = o.NewFlags("rsocket udpong", "7174")
		f.Int(&o.count, "count", "C", 1000, 1, math.MaxInt32, "`number` of datagrams of a client")
		f.Int(&o.size, "size", "S", 1000, control, largest, "`bytes` in a datagram of a client")
		o.words(f, "async", "echo", "nonblocking")
	default:
		f = o.NewFlags("rsocket "+name, "7471")
		f.Int(&o.iterations, "iterations", "I", 1, 1, math.MaxInt32, "`number` of times, the same on both sides")
		f.Int(&o.count, "count", "C", 1000, 1, math.MaxInt32, "`number` of transfers each time, the same on both sides")
		f.Int(&o.size, "size", "S", 1000, 1, 1<<30, "`bytes` in a transfer, the same on both sides")
		o.words(f, "async", "blocking", "nonblocking", "verify")
	}
	f.Int(&o.buffer, "buffer", "B", 512<<10, 0, 1<<30, "`bytes` of the buffers for sending and for receiving")
	f.Timeout(&o.timeout, "longest `time` without a reply")
	err := f.Parse(args, mostArgs)
	if err == nil && f.NArg() > 0 {
		err = o.files(f.Args())
	}
	return o, err
}

// words adds -T, which may be repeated: words, or their first letters.
func (o *options) words(f *program.Flags, names ...string) {
	want := strings.Join(names, ", ")
	f.FuncP("test", "T", "`what` to do: "+want+"; may be repeated", func(s string) error {
		for _, name := range names {
			if s == name || s == name[:1] {
				o.test[name] = true
				return nil
			}
		}
		return errors.New("want one of " + want)
	})
}
