package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

const (
	mostStrange  = 64               // connections that have not proved themselves; the oldest has to go for another one
	mostWaiting  = 1024             // connections of those that have
	requestLimit = 10 * time.Minute // for a client to send its request
)

// Config is how an agent works.
type Config struct {
	Worker
	Token *atomic.Pointer[Token] // that is valid now: another one may replace it
	Child Child                  // runs the tests of single clients
	Log   func(format string, v ...any)
}

type server struct {
	Config
	waiting chan struct{}
	strange wire.Strangers
	wg      sync.WaitGroup
}

// Serve runs an agent until ctx ends. It closes the listener.
func Serve(ctx context.Context, ln net.Listener, c Config) error {
	s := &server{Config: c, strange: wire.Strangers{Most: mostStrange}, waiting: make(chan struct{}, mostWaiting)}
	s.prepare()
	s.Worker.Log = c.Log
	ctx, stop := context.WithCancel(ctx)
	defer s.wg.Wait()
	defer stop()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	for {
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			time.Sleep(10 * time.Millisecond) // for example because no descriptor is free
			continue
		}
		s.strange.Admit(conn)
		s.wg.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			s.meet(ctx, conn)
		})
	}
}

// meet serves one connection.
func (s *server) meet(ctx context.Context, c net.Conn) {
	c.SetDeadline(time.Now().Add(StepLimit))
	f, err := authenticate(c, *s.Token.Load())
	s.strange.Known(c)
	if err != nil {
		if errors.Is(err, ErrToken) {
			s.Log("%v has another token, or speaks another protocol", c.RemoteAddr())
		}
		return
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		f.send(reply{Error: fmt.Sprintf("%d clients are connected, which is the limit", mostWaiting)})
		return
	}
	f.SetDeadline(time.Now().Add(requestLimit))
	var r request
	if err := f.receive(&r, maxRequest); err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) {
			s.Log("%v: %v", c.RemoteAddr(), err)
		}
		return
	}
	f.SetDeadline(time.Time{})
	if r.Op == opLink {
		if err := s.work(ctx, f); err != nil {
			s.Log("%v: %v", c.RemoteAddr(), err)
		}
		return
	}
	// Nothing comes after the request: a client that sends anything, or closes, does not want the reply any more.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.wg.Go(func() {
		defer cancel()
		f.Read(make([]byte, 1))
	})
	if err := s.serve(ctx, f, r); err != nil {
		f.send(reply{Error: err.Error()})
	}
	c.Close()
}

// serve does what a request asks for. Its error is sent to the client.
func (s *server) serve(ctx context.Context, f *frames, r request) error {
	switch r.Op {
	case opHold:
		err := f.send(reply{Most: s.Most, ID: s.ID, Program: s.Hello.Program})
		if err == nil {
			<-ctx.Done()
		}
		return err
	case opServer:
		if err := CheckTest(r.Test); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown operation %.20q: the client is of another version", r.Op)
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.Log("%v: %s of %v %v", f.RemoteAddr(), r.Op, r.Test.Verb, r.Test.Metric)
	t := Task{Test: r.Test, Options: s.NICs[0].Options}
	_, err := s.Child.Run(ctx, t, func(port int) error { return f.send(reply{Port: port}) })
	return err
}
