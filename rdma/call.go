package rdma

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// callFailed marks a reply that is the text of an error. The other bits of the number of a message are that of its
// call.
const callFailed = 1 << 31

const (
	callsMost    = 256                           // calls that Serve handles at a time
	requestBytes = 64 << 20                      // most bytes of their requests, if there are several
	copiesMost   = callsMost * link.DefaultBlock // bytes of them that are copied out of blocks
)

// Caller makes calls over a connection: messages with replies, any number at a time. The peer runs Serve. It takes the
// connection over: the program must not send or receive there. Any number of goroutines may use it.
type Caller struct {
	c      *Conn
	cancel context.CancelFunc
	done   chan struct{} // closed when no more replies arrive
	err    error         // why; set before

	mu      sync.Mutex
	next    uint32
	waiting map[uint32]chan *Message
}

// CallError is the error that the peer's handler returned.
type CallError struct{ Text string }

func (e *CallError) Error() string { return "the peer's handler: " + e.Text }

// NewCaller makes a caller of a connection, which can have one: two would take each other's replies. If there is one,
// or if this side serves the peer there, the error matches *ibv.ArgError.
func NewCaller(c *Conn) (*Caller, error) {
	if !c.l.Calls.CompareAndSwap(0, -1) {
		got := "one that has a Caller"
		if c.l.Calls.Load() > 0 {
			got = "one that this side serves"
		}
		return nil, c.taken("call", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Caller{c: c, cancel: cancel, done: make(chan struct{}), waiting: make(map[uint32]chan *Message)}
	go r.receive(ctx)
	return r, nil
}

// taken is the error of a second use of a connection for calls.
func (c *Conn) taken(op, got string) error {
	return &ibv.OpError{Op: op, Object: "connection to " + c.RemoteAddr().String(), Err: &ibv.ArgError{Arg: "Conn",
		Got: got, Want: "one of its own (any number of goroutines may use one Caller)"}}
}

// receive passes each reply to the call that waits for it.
func (r *Caller) receive(ctx context.Context) {
	for {
		m, err := r.c.Recv(ctx)
		if err == nil {
			r.answer(m)
			continue
		}
		if err == io.EOF {
			err = ErrPeerClosed
		}
		if ctx.Err() != nil {
			err = ErrClosed
		}
		r.err = err
		close(r.done)
		return
	}
}

// answer passes a reply on. A reply that no call waits for any more is dropped.
func (r *Caller) answer(m *Message) {
	imm, _ := m.Imm()
	id := imm &^ callFailed
	r.mu.Lock()
	ch := r.waiting[id]
	delete(r.waiting, id)
	if ch != nil {
		ch <- m // there is room for one; a call that gives up looks for it after having had the lock
	}
	r.mu.Unlock()
	if ch == nil {
		m.Release()
	}
}

// Call sends a request and waits for the reply, which the caller releases. If ctx ends first, the peer may have handled
// the request or not.
func (r *Caller) Call(ctx context.Context, request []byte) (*Message, error) {
	ch := make(chan *Message, 1)
	r.mu.Lock()
	for r.next++; r.waiting[r.next&^callFailed] != nil; r.next++ { // a call may outlast all numbers
	}
	id := r.next &^ callFailed
	r.waiting[id] = ch
	r.mu.Unlock()
	fail := func(err error) (*Message, error) {
		r.mu.Lock()
		delete(r.waiting, id)
		r.mu.Unlock()
		select {
		case m := <-ch: // it came meanwhile
			m.Release()
		default:
		}
		return nil, err
	}
	if err := r.c.SendImm(ctx, id, request); err != nil {
		return fail(err)
	}
	select {
	case m := <-ch:
		return result(m)
	default:
	}
	select {
	case m := <-ch:
		return result(m)
	case <-ctx.Done():
		return fail(ctx.Err())
	case <-r.done:
		return fail(&ibv.OpError{Op: "call", Object: "connection to " + r.c.RemoteAddr().String(), Err: r.err})
	}
}

// result returns a reply, or the error that it carries.
func result(m *Message) (*Message, error) {
	if imm, _ := m.Imm(); imm&callFailed != 0 {
		err := &CallError{Text: string(m.Bytes())}
		m.Release()
		return nil, err
	}
	return m, nil
}

// Close closes the connection. Calls that wait return an error that matches net.ErrClosed.
func (r *Caller) Close() error {
	r.cancel()
	<-r.done
	return r.c.Close()
}

// Serve handles the calls of the peer's Caller until the peer closes the connection, which returns nil, or ctx ends.
// Then the contexts of the handlers end also, and Serve returns when they have returned. Requests for which no handler
// was free are dropped, because the peer takes no replies any more.
//
// Each call runs handler on its own goroutine. Up to 256 run at a time, even if each takes long, or as many as have 64
// MiB of requests: when a request is handed to its handler, the peer may send another. For this requests are copied, if
// that takes at most 8 MiB and EngineOptions.Memory has room. Others count against what the peer may send until their
// handlers return. A request is valid until then.
//
// The result of handler is the reply. Its error is sent to the caller as a *CallError, as is that of a reply that is
// larger than the caller accepts, or that handler has ended its goroutine. A panic of handler ends the program: recover
// it there if it must not. On a connection with a Caller of this side it fails with an *ibv.ArgError.
//
// It does not close the connection, which other goroutines may also serve, and which the program may use afterwards.
func Serve(ctx context.Context, c *Conn, handler func(ctx context.Context, request *Message) ([]byte, error)) error {
	for n := c.l.Calls.Load(); ; n = c.l.Calls.Load() {
		if n < 0 {
			return c.taken("serve", "one that has a Caller")
		}
		if c.l.Calls.CompareAndSwap(n, n+1) {
			break
		}
	}
	defer c.l.Calls.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	s := &server{c: c, handler: handler, ended: make(chan struct{}, 1)}
	defer s.running.Wait()
	defer cancel()
	handlers, end := context.WithCancel(ctx)
	s.running.Go(func() { // the peer's FIN may be behind requests whose blocks handlers keep
		defer end()
		select {
		case <-c.l.Stopped.Done():
		case <-ctx.Done():
		}
	})
	for {
		if err := s.next(ctx, handlers); err != nil {
			if err == io.EOF || errors.Is(err, ErrPeerClosed) {
				return nil
			}
			return err
		}
	}
}

// server is a Serve at work.
type server struct {
	c       *Conn
	handler func(ctx context.Context, request *Message) ([]byte, error)
	running sync.WaitGroup

	// Of the handlers that run. One goroutine adds, so that it may compare before.
	calls  atomic.Int32
	bytes  atomic.Int64  // of their requests
	copied atomic.Int64  // of them copied by detach
	ended  chan struct{} // has a token when one has ended
}

// next starts the handler of the next request, with the context handlers, as soon as the bounds of running ones allow.
func (s *server) next(ctx, handlers context.Context) error {
	if _, err := s.room(ctx, 0); err != nil {
		return err
	}
	m, err := s.c.l.Reader.RecvMessage(turn.Bound{Ctx: ctx})
	if err != nil {
		return s.c.fail("recv", err)
	}
	if !m.HasImm || m.Imm&callFailed != 0 {
		m.Release()
		return &ProtocolError{Frame: "DATA", Got: "a message without the number of a call", Want: "one of a Caller"}
	}
	n := int64(m.N)
	if room, err := s.room(ctx, n); !room {
		m.Release()
		return err
	}
	s.calls.Add(1)
	s.bytes.Add(n)
	copied := s.detach(m)
	c := &served{request: messageOf(m), m: m, id: m.Imm, bytes: n, copied: copied}
	s.running.Add(1)
	go s.handle(handlers, c)
	return nil
}

// served is a call that a handler handles.
type served struct {
	request       Message // of m, which the handler may release
	m             *link.Message
	id            uint32
	bytes, copied int64

	reply []byte
	text  string // of the handler's error
	fails bool
}

// handle runs the handler, sends the reply, and frees the request.
func (s *server) handle(ctx context.Context, c *served) {
	foreign.Call(func() {
		reply, err := s.handler(ctx, &c.request)
		if c.reply, c.fails = reply, err != nil; c.fails {
			c.text = err.Error()
		}
	}, func(returned bool) {
		if !returned {
			c.fails, c.text = true, foreign.ErrExited.Error()
			go s.end(ctx, c)
			return
		}
		s.end(ctx, c)
	})
}

// room waits until the bounds allow a handler of a request of n bytes. Handlers need not end after the end of the
// connection, so there may be no room then.
func (s *server) room(ctx context.Context, n int64) (bool, error) {
	full := func() bool {
		calls := s.calls.Load()
		return calls == callsMost || calls > 0 && s.bytes.Load()+n > requestBytes
	}
	if !full() {
		return true, nil
	}
	defer s.c.l.Shard.Progress.Meanwhile()()
	for full() {
		select {
		case <-s.ended:
		case <-ctx.Done():
			return false, ctx.Err()
		case <-s.c.l.Stopped.Done():
			return false, nil
		}
	}
	return true, nil
}

// detach copies a request out of its blocks, so that they and its credits return, and reports how many bytes it takes.
func (s *server) detach(m *link.Message) int64 {
	n := int64(m.N)
	if m.Buf != nil || s.copied.Load()+n > copiesMost || !s.c.l.Shard.Engine.Pool.Charge(n) {
		return 0
	}
	s.copied.Add(n)
	m.Detach()
	return n
}

// end sends the reply to a call whose handler has ended.
func (s *server) end(ctx context.Context, c *served) {
	defer s.running.Done()
	if !c.fails {
		err := s.c.SendImm(ctx, c.id, c.reply)
		if c.fails = errors.Is(err, ErrTooLarge); c.fails {
			c.text = err.Error()
		} // else it is sent, or the connection has ended: Recv returns why
	}
	if c.fails {
		most := min(len(c.text), int(s.c.l.Peer.MaxMessage))
		_ = s.c.SendImm(ctx, c.id|callFailed, []byte(c.text[:most]))
	}
	if c.request.h.Valid() { // else the handler has released it
		c.m.Release()
	}
	s.c.l.Shard.Engine.Pool.Uncharge(c.copied)
	s.copied.Add(-c.copied)
	s.bytes.Add(-c.bytes)
	s.calls.Add(-1)
	progress.Token(s.ended)
}
