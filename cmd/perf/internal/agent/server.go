package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	stepLimit    = 10 * time.Second // for a client to authenticate, and to receive a reply
	mostStrange  = 64               // connections that have not proved themselves; the oldest has to go for another one
	mostWaiting  = 1024             // connections of those that have
	requestLimit = 10 * time.Minute // for a client to send its request
)

// Config is how an agent works.
type Config struct {
	Token      Token
	MaxClients int      // tests at a time; others wait
	Program    []string // the perf that runs a test, with its own options such as a device
	Name       string   // of this program, with its version
	Log        func(format string, v ...any)
	Once       bool // end with the first client that holds a connection
}

type server struct {
	Config
	id      string
	slots   chan struct{}
	waiting chan struct{}
	mu      sync.Mutex
	strange []net.Conn
	wg      sync.WaitGroup
	stop    context.CancelFunc
}

// Serve runs an agent until ctx ends. It closes the listener.
func Serve(ctx context.Context, ln net.Listener, c Config) error {
	s := &server{Config: c, id: rand.Text(), slots: make(chan struct{}, c.MaxClients),
		waiting: make(chan struct{}, mostWaiting)}
	ctx, s.stop = context.WithCancel(ctx)
	defer s.wg.Wait()
	defer s.stop()
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
		s.admit(conn)
		s.wg.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			s.meet(ctx, conn)
		})
	}
}

// admit makes room for a stranger.
func (s *server) admit(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.strange) == mostStrange {
		s.strange[0].Close()
		s.strange = s.strange[1:]
	}
	s.strange = append(s.strange, c)
}

// known takes a connection off the list of strangers.
func (s *server) known(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.strange {
		if o == c {
			s.strange = append(s.strange[:i:i], s.strange[i+1:]...)
			return
		}
	}
}

// meet serves one connection.
func (s *server) meet(ctx context.Context, c net.Conn) {
	c.SetDeadline(time.Now().Add(stepLimit))
	f, err := authenticate(c, s.Token)
	s.known(c)
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
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			s.Log("%v: %v", c.RemoteAddr(), err)
		}
		return
	}
	f.SetDeadline(time.Time{})
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
		if s.Once {
			defer s.stop()
		}
		err := f.send(reply{Most: s.MaxClients, ID: s.id, Program: s.Name})
		if err == nil {
			<-ctx.Done()
		}
		return err
	case opServer, opClient:
		if err := CheckTest(r.Test); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown operation %.20q: the client is of another version", r.Op)
	}
	if r.Op == opClient {
		if err := checkHost(r.Host); err != nil {
			return err
		}
		if r.Port < 1 || r.Port > 65535 {
			return fmt.Errorf("port %d; allowed: 1 to 65535", r.Port)
		}
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.Log("%v: %s of %v %v", f.RemoteAddr(), r.Op, r.Test.Verb, r.Test.Metric)
	result, err := s.run(ctx, r, func(port int) error { return f.send(reply{Port: port}) })
	if err != nil {
		return err
	}
	return f.send(reply{Result: result})
}
