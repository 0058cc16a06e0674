// Udpong sends datagrams over an rsocket to a server, which counts them or sends them back, with itself or with the
// stock udpong, as server or as client. Datagrams of rsockets need InfiniBand.
//
//	udpong -b ADDRESS                      # on one host: waits, until interrupted
//	udpong -s ADDRESS -C 1000 -T echo      # on the other
//
// Datagrams may be lost. A question that has no answer is asked again; of what is only counted, the server says how
// many have come.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/examples/internal/rs"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

func main() { cm.Main("udpong", run) }

type options struct {
	rs.Options
	count, size int
	echo        bool
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := cm.Flags("udpong")
	o.Flags(f, "7174")
	f.IntVarP(&o.count, "count", "C", 1000, "`number` of datagrams of a client")
	f.IntVarP(&o.size, "size", "S", 1000, "`bytes` in a datagram of a client")
	rs.Tests(f, map[string]func(){
		"async":       func() { o.Wait = rs.Async },
		"nonblocking": func() { o.Wait = rs.Nonblocking },
		"echo":        func() { o.echo = true },
	})
	err := cm.Parse(f, args, "udpong [options]\nudpong -s ADDRESS [options]\n", func() error {
		return errors.Join(o.Check(),
			cm.Within("-C", o.count, 1, math.MaxInt32),
			cm.Within("-S", o.size, control, largest))
	})
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	switch {
	case err != nil:
		return err
	case o.Server != "":
		return ask(ctx, o, out)
	default:
		return serve(ctx, o, out)
	}
}

// serve answers until interrupted.
func serve(ctx context.Context, o *options, out io.Writer) (err error) {
	at, err := cm.Resolve(ctx, o.Bind, o.Port)
	if err != nil {
		return err
	}
	s, err := rs.New(ctx, rsocket.Datagram, at, &o.Options)
	if err != nil {
		return err
	}
	defer pingpong.Close(s, &err)
	if err := s.Bind(at); err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on %v\n", at)
	var (
		clients [256]uint32 // datagrams of each
		next    byte        // client
		b       = make([]byte, 2*largest)
	)
	for {
		n, from, err := s.RecvFrom(ctx, b)
		if ctx.Err() != nil {
			return nil // interrupted, as intended
		}
		if err != nil {
			return err
		}
		m := message(b[:n])
		if n < control {
			fmt.Fprintf(out, "%v: a datagram of %d bytes, want at least %d\n", from, n, control)
			continue
		}
		switch m.op() {
		case login:
			fmt.Fprintf(out, "client %d is %v\n", next, from)
			m.setClient(next)
			next++
			fallthrough
		case begin:
			clients[m.client()] = 0
		case echo:
			clients[m.client()]++
		case end:
			m.setCount(clients[m.client()])
		default: // has no answer
			clients[m.client()]++
			continue
		}
		if err := s.SendTo(m, from); err != nil {
			return err
		}
	}
}
