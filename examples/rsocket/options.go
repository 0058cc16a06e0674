package main

import (
	"errors"
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

// words adds -T, which may be repeated: words, or their first letters.
func (o *options) words(f *program.Flags, names ...string) {
	words := map[string]func(){
		"async":       func() { o.wait = async },
		"nonblocking": func() { o.wait = nonblocking },
		"blocking":    func() { o.wait = blocking },
		"verify":      func() { o.verify = true },
		"echo":        func() { o.echo = true },
	}
	want := strings.Join(names, ", ")
	f.FuncP("test", "T", "`what` to do: "+want+"; may be repeated", func(s string) error {
		for _, name := range names {
			if s == name || s == name[:1] {
				words[name]()
				return nil
			}
		}
		return errors.New("want one of " + want)
	})
}
