// Kvcache keeps values in memory that clients read without the server's processor.
//
//	kvcache serve ADDRESS
//	kvcache put ADDRESS KEY VALUE
//	kvcache get ADDRESS KEY
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log"
	"os"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/rdma"
)

func main() {
	ctx := context.Background()
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "serve":
		err = serve(ctx, args[1])
	case len(args) == 4 && args[0] == "put":
		err = with(ctx, args[1], func(c *client) error { return c.put(ctx, args[2], []byte(args[3])) })
	case len(args) == 3 && args[0] == "get":
		err = with(ctx, args[1], func(c *client) error {
			value, err := c.get(ctx, args[2])
			if err == nil {
				fmt.Printf("%s\n", value)
			}
			return err
		})
	default:
		err = errors.New("usage: kvcache serve ADDRESS | put ADDRESS KEY VALUE | get ADDRESS KEY")
	}
	if err := errors.Join(err, rdma.CloseIdle()); err != nil {
		log.Fatal(err)
	}
}

// options allow leases of a day. Both ends have them.
var options = &rdma.Options{Leases: &rdma.LeaseOptions{MaxDuration: 24 * time.Hour}}

// place is where a value is in the memory of the cache.
type place struct {
	Off int64  `json:"off"`
	Len int    `json:"len"`
	Sum uint32 `json:"sum"` // CRC-32, because a value may be replaced while a client reads it
}

// cache is the server's side. All values are in one buffer, one after another.
type cache struct {
	memory *rdma.Buffer
	mu     sync.Mutex
	index  map[string]place
	next   int64
}

func serve(ctx context.Context, addr string) error {
	engine, err := rdma.NewEngine("", nil) // "": the first device with an active port
	if err != nil {
		return err
	}
	memory, err := engine.Pool().Get(64 << 20)
	if err != nil {
		return err
	}
	s := &cache{memory: memory, index: map[string]place{}}
	l, err := rdma.Listen(ctx, addr, &rdma.Options{Engine: engine, Leases: options.Leases})
	if err != nil {
		return err
	}
	fmt.Println("listening at", l.Addr())
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			// doc: kv-lend
			_, err := c.Lend(ctx, s.memory, rdma.MayRead, 0) // all of it, read only, for LeaseOptions.MaxDuration
			if err == nil {
				err = rdma.Serve(ctx, c, s.answer) // until the client closes
			}
			// end
			if err != nil {
				log.Printf("%v: %v", c.RemoteAddr(), err)
			}
		}()
	}
}

// doc: kv-answer
// answer handles "put KEY", a zero byte and a value, and "find KEY", which returns a place.
func (s *cache) answer(_ context.Context, m *rdma.Message) ([]byte, error) {
	op, rest, _ := bytes.Cut(m.Bytes(), []byte(" "))
	key, value, _ := bytes.Cut(rest, []byte{0})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch string(op) {
	case "find":
		p, ok := s.index[string(key)]
		if !ok {
			return nil, fmt.Errorf("no key %q", key)
		}
		return json.Marshal(p)
	case "put":
		if len(value) == 0 || len(value) > len(s.memory.Bytes()) {
			return nil, fmt.Errorf("a value of %d bytes: 1 to %d", len(value), len(s.memory.Bytes()))
		}
		if s.next+int64(len(value)) > int64(len(s.memory.Bytes())) {
			clear(s.index) // full: forget everything and begin again
			s.next = 0
		}
		copy(s.memory.Bytes()[s.next:], value)
		s.index[string(key)] = place{s.next, len(value), crc32.ChecksumIEEE(value)}
		s.next += int64(len(value))
		return nil, nil
	}
	return nil, fmt.Errorf("%q: want find or put", op)
}

// end

// client is the client's side: calls for the index, reads of the lent memory for values.
type client struct {
	calls  *rdma.Caller
	pool   *rdma.Pool
	memory *rdma.Region
}

// with connects, runs f and closes.
func with(ctx context.Context, addr string, f func(*client) error) (err error) {
	c, err := rdma.Dial(ctx, addr, options)
	if err != nil {
		return err
	}
	calls, err := rdma.NewCaller(c)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer func() { err = errors.Join(err, calls.Close()) }()
	memory, err := c.Borrow(ctx)
	if err != nil {
		return err
	}
	return f(&client{calls, c.Engine().Pool(), memory})
}

func (c *client) put(ctx context.Context, key string, value []byte) error {
	m, err := c.calls.Call(ctx, append([]byte("put "+key+"\x00"), value...))
	if err == nil {
		m.Release()
	}
	return err
}

// doc: kv-get
// get asks where the value is, and reads it there. Keep the place, and the next get needs no call at all.
func (c *client) get(ctx context.Context, key string) ([]byte, error) {
	for {
		m, err := c.calls.Call(ctx, []byte("find "+key))
		if err != nil {
			return nil, err
		}
		var p place
		err = json.Unmarshal(m.Bytes(), &p)
		m.Release()
		if err != nil {
			return nil, err
		}
		b, err := c.pool.GetWait(ctx, p.Len)
		if err != nil {
			return nil, err
		}
		err = c.memory.Read(ctx, b, p.Off)
		value := bytes.Clone(b.Bytes())
		b.Release()
		if err != nil || crc32.ChecksumIEEE(value) == p.Sum {
			return value, err
		}
	}
}

// end
