package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// waiting is how a program waits for a socket that is not ready.
type waiting int

// Ways to wait.
const (
	async       waiting = iota // in a Poller
	nonblocking                // by trying again at once
	blocking                   // in the call, which only the end of the connection interrupts
)

// options are those that all of these programs have.
type options struct {
	server  string // "": be the server
	bind    string
	port    string
	wait    waiting
	buffer  int // bytes, each way; 0 is the library's own choice
	ioMaps  int // that this side will have
	timeout time.Duration
}

// newFlags returns the flags of a program that all of these have; forms are the ways to call it.
func (o *options) newFlags(forms, port string) *pflag.FlagSet {
	f := pflag.NewFlagSet("rsocket", pflag.ExitOnError)
	f.SortFlags = false
	f.Usage = func() { fmt.Fprint(f.Output(), forms, "\n", f.FlagUsages()) }
	f.StringVarP(&o.bind, "bind", "b", "", "`address` to come from, or to listen on (default all of IPv4)")
	f.StringVarP(&o.port, "port", "p", port, "`port` of the server")
	f.IntVarP(&o.buffer, "buffer", "B", 512<<10, "`bytes` of the buffers for sending and for receiving")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` without a reply")
	return f
}

// serverFlag adds -s.
func (o *options) serverFlag(f *pflag.FlagSet) {
	f.StringVarP(&o.server, "server", "s", "", "`address` of the server (default: be the server)")
}

// parse reads the command line. It exits for -h, and if a flag is wrong.
func (o *options) parse(f *pflag.FlagSet, args []string, mostArgs int) error {
	_ = f.Parse(args)
	if f.NArg() > mostArgs {
		return fmt.Errorf("%q: %d arguments, want at most %d", f.Arg(0), f.NArg(), mostArgs)
	}
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout %v: want more than 0", o.timeout)
	}
	return within("-B", o.buffer, 0, 1<<30)
}

func within(flag string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s %d: want %d to %d", flag, n, least, most)
	}
	return nil
}

// words is -T, which may be repeated: each word, or its first letter, has a function.
type words map[string]func()

func (w words) add(f *pflag.FlagSet) {
	names := slices.Sorted(maps.Keys(w))
	want := strings.Join(names, ", ")
	f.FuncP("test", "T", "`what` to do: "+want+"; may be repeated", func(s string) error {
		for _, name := range names {
			if s == name || s == name[:1] {
				w[name]()
				return nil
			}
		}
		return errors.New("want one of " + want)
	})
}
