package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/pureverbs/pureverbs/examples/program"
)

// waiting is how a program waits for a socket that is not ready.
type waiting int

// Ways to wait.
const (
	async       waiting = iota // in a Poller
	nonblocking                // by trying again at once
	blocking                   // in the call, which only the end of the connection interrupts
)

// options are those of all four programs.
type options struct {
	program.Ends
	wait    waiting
	buffer  int // bytes, each way; 0 is the library's own choice
	ioMaps  int // that this side will have
	timeout program.Timeout

	iterations, count, size int
	verify, echo            bool
	directory, source, dest string // of rcopy
}

// parse reads the command line of a program.
func parse(name string, args []string) (*options, error) {
	o := &options{timeout: program.Timeout{Lossy: true}}
	forms, mostArgs := fmt.Sprintf("rsocket %s [options]\nrsocket %[1]s -s HOST [options]\n", name), 0
	if name == "rcopy" {
		forms, mostArgs = "rsocket rcopy -d DIRECTORY [options]\nrsocket rcopy FILE HOST[:NAME] [options]\n", 2
	}
	f := program.NewFlags(forms)
	f.Int(&o.buffer, "buffer", "B", 512<<10, 0, 1<<30, "`bytes` of the buffers for sending and for receiving")
	f.Timeout(&o.timeout, "longest `time` without a reply")
	switch name {
	case "rcopy":
		o.LocalFlags(f, "7427")
		f.StringVarP(&o.directory, "directory", "d", ".", "where a server writes")
	case "udpong":
		o.Ends.Flags(f, "7174")
		f.Int(&o.count, "count", "C", 1000, 1, math.MaxInt32, "`number` of datagrams of a client")
		f.Int(&o.size, "size", "S", 1000, control, largest, "`bytes` in a datagram of a client")
		o.words(f, "async", "echo", "nonblocking")
	case "riostream":
		o.ioMaps = 1
		fallthrough
	default:
		o.Ends.Flags(f, "7471")
		f.Int(&o.iterations, "iterations", "I", 1, 1, math.MaxInt32, "`number` of times, the same on both sides")
		f.Int(&o.count, "count", "C", 1000, 1, math.MaxInt32, "`number` of transfers each time, the same on both sides")
		f.Int(&o.size, "size", "S", 1000, 1, 1<<30, "`bytes` in a transfer, the same on both sides")
		o.words(f, "async", "blocking", "nonblocking", "verify")
	}
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
			if s != name && s != name[:1] {
				continue
			}
			switch name {
			case "async":
				o.wait = async
			case "nonblocking":
				o.wait = nonblocking
			case "blocking":
				o.wait = blocking
			case "verify":
				o.verify = true
			case "echo":
				o.echo = true
			}
			return nil
		}
		return errors.New("want one of " + want)
	})
}

// files reads the arguments of a client of rcopy: FILE and HOST[:NAME].
func (o *options) files(args []string) error {
	if len(args) == 1 {
		return errors.New("1 argument: want FILE and HOST:NAME, or none")
	}
	o.source = args[0]
	o.Server, o.dest = split(args[1])
	switch {
	case o.Server == "":
		return fmt.Errorf("%q has no host", args[1])
	case o.dest == "":
		o.dest = filepath.Base(o.source)
	case len(o.dest) > longestName:
		return fmt.Errorf("a name of %d bytes: want at most %d", len(o.dest), longestName)
	}
	return nil
}

// split divides HOST:NAME. An IPv6 address is in brackets.
func split(s string) (host, name string) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		host, name, _ = strings.Cut(rest, "]")
		return host, strings.TrimPrefix(name, ":")
	}
	host, name, _ = strings.Cut(s, ":")
	return host, name
}
