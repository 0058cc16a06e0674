// Kv is a key-value store in memory, and its client. A request is a call of package rdma.
//
//	kv                            serves any number of clients
//	kv -s HOST -k KEY -v VALUE    sets a key
//	kv -s HOST -k KEY             prints its value
//	kv -s HOST -c 100 -C 1000     sets and gets 1000 keys with each of 100 clients
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/pureverbs/pureverbs/examples/frame"
	"github.com/pureverbs/pureverbs/rdma"
)

const synopsis = `kv                            serves any number of clients
kv -s HOST -k KEY -v VALUE    sets a key
kv -s HOST -k KEY             prints its value
kv -s HOST -c 100 -C 1000     sets and gets 1000 keys with each of 100 clients
`

var (
	server  = flag.String("s", "", "`address` of the server; without it, be one")
	bind    = flag.String("b", "", "`address` to serve at; without it, all")
	port    = flag.String("p", "7473", "`port` of the server")
	key     = flag.String("k", "", "`key` to set or get")
	value   = flag.String("v", "", "`value` to set it to")
	clients = flag.Int("c", 1, "`number` of clients, without -k")
	count   = flag.Int("C", 1000, "`number` of keys of each client, without -k")
)

func main() { frame.Main(synopsis, run) }

func run(ctx context.Context, out io.Writer) error {
	addr := net.JoinHostPort(*server, *port)
	switch {
	case *server == "":
		return serve(ctx, net.JoinHostPort(*bind, *port), out)
	case *key == "":
		return load(ctx, addr, *clients, *count, out)
	}
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if *value != "" {
		return c.set(ctx, *key, []byte(*value))
	}
	got, err := c.get(ctx, *key)
	if err == nil {
		fmt.Fprintf(out, "%s\n", got)
	}
	return err
}

// store is the server's side. A request is "get KEY", or "set KEY" and after a zero byte the value.
type store struct {
	mu     sync.RWMutex
	values map[string][]byte
}

// serve serves clients until ctx ends.
func serve(ctx context.Context, addr string, out io.Writer) error {
	l, err := rdma.Listen(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Fprintf(out, "serving at %v\n", l.Addr())
	s := store{values: make(map[string][]byte)}
	return frame.Serve(ctx, l.Accept, func(ctx context.Context, c *rdma.Conn) error {
		return rdma.Serve(ctx, c, s.reply)
	})
}

func (s *store) reply(_ context.Context, m *rdma.Message) ([]byte, error) {
	op, rest, _ := bytes.Cut(m.Bytes(), []byte(" "))
	switch string(op) {
	case "get":
		s.mu.RLock()
		defer s.mu.RUnlock()
		if v, ok := s.values[string(rest)]; ok {
			return v, nil // set replaces values, and changes none
		}
		return nil, fmt.Errorf("no key %q", rest) // the caller gets a *rdma.CallError
	case "set":
		key, value, _ := bytes.Cut(rest, []byte{0})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.values[string(key)] = bytes.Clone(value) // the message's memory is used again
		return nil, nil
	}
	return nil, fmt.Errorf("operation %q: want get or set", op)
}

// client is the client's side.
type client struct{ *rdma.Caller }

func dial(ctx context.Context, addr string) (client, error) {
	c, err := rdma.Dial(ctx, addr, nil)
	if err != nil {
		return client{}, err
	}
	caller, err := rdma.NewCaller(c)
	if err != nil {
		return client{}, errors.Join(err, c.Close())
	}
	return client{caller}, nil
}

func (c client) get(ctx context.Context, key string) ([]byte, error) {
	m, err := c.Call(ctx, []byte("get "+key))
	if err != nil {
		return nil, err
	}
	defer m.Release()
	return bytes.Clone(m.Bytes()), nil
}

func (c client) set(ctx context.Context, key string, value []byte) error {
	m, err := c.Call(ctx, append([]byte("set "+key+"\x00"), value...))
	if err == nil {
		m.Release()
	}
	return err
}

// load sets and gets keys with many clients at the same time, and checks the values.
func load(ctx context.Context, addr string, clients, count int, out io.Writer) error {
	errs := make(chan error)
	for n := range clients {
		go func() { errs <- loadOne(ctx, addr, n, count) }()
	}
	var err error
	for range clients {
		err = errors.Join(err, <-errs)
	}
	if err == nil {
		fmt.Fprintf(out, "%d keys set, and as many values as they should be\n", clients*count)
	}
	return err
}

func loadOne(ctx context.Context, addr string, n, count int) error {
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range count {
		key, want := fmt.Sprintf("key %d of %d", i, n), bytes.Repeat([]byte{byte(i), byte(n)}, i%5000)
		if err := c.set(ctx, key, want); err != nil {
			return err
		}
		got, err := c.get(ctx, key)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s: %d bytes, want the %d that were set", key, len(got), len(want))
		}
	}
	return nil
}
