package rs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
)

// Wait is how a program waits for a socket that is not ready.
type Wait int

// Ways to wait.
const (
	Async       Wait = iota // in a Poller
	Nonblocking             // by trying again at once
	Blocking                // in the call, which only the end of the connection interrupts
)

// Options are those that all of these programs have.
type Options struct {
	Server  string // "": be the server
	Bind    string
	Port    string
	Wait    Wait
	Buffer  int // bytes, each way; 0 is the library's own choice
	IOMaps  int // that this side will have
	Timeout time.Duration
}

// Flags adds the flags of o.
func (o *Options) Flags(f *pflag.FlagSet, port string) {
	f.StringVarP(&o.Server, "server", "s", "", "`address` of the server (default: be the server)")
	o.CommonFlags(f, port)
}

// CommonFlags adds those of Flags that say nothing of a server.
func (o *Options) CommonFlags(f *pflag.FlagSet, port string) {
	f.StringVarP(&o.Bind, "bind", "b", "", "`address` to come from, or to listen on (default all of IPv4)")
	f.StringVarP(&o.Port, "port", "p", port, "`port` of the server")
	f.IntVarP(&o.Buffer, "buffer", "B", 512<<10, "`bytes` of the buffers for sending and for receiving")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Second, "longest `time` without an answer")
}

// Check checks the flags of o.
func (o *Options) Check() error {
	if o.Timeout <= 0 {
		return fmt.Errorf("--timeout %v: want more than 0", o.Timeout)
	}
	return cm.Within("-B", o.Buffer, 0, 1<<30)
}

// Tests adds -T, which may be repeated: each word, or its first letter, has a function.
func Tests(f *pflag.FlagSet, words map[string]func()) {
	names := slices.Sorted(maps.Keys(words))
	f.FuncP("test", "T", "`what` to do: "+strings.Join(names, ", ")+"; may be repeated", func(s string) error {
		for _, name := range names {
			if s == name || s == name[:1] {
				words[name]()
				return nil
			}
		}
		return fmt.Errorf("want one of %s", strings.Join(names, ", "))
	})
}
