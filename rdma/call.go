package rdma

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
)

// callFailed marks a reply that is the text of an error. The other bits of the number of a message are that of its
// call.
const callFailed = 1 << 31

// callsMost bounds the calls of a connection that Serve handles at a time.
const callsMost = 256

// Caller makes calls over a connection: messages with replies, any number at a time. The peer runs Serve. It takes the
// connection over: the program must not send or receive there. Any number of goroutines may use it.
type Caller struct {
	c       *Conn
	cancel  context.CancelFunc
	done    chan struct{} // closed when no more replies arrive
	refused error         // why it has no connection, or nil

	mu      sync.Mutex
	next    uint32
	waiting map[uint32]chan *Message
	err     error // why no more replies arrive
}

// CallError is the error that the peer's handler returned.
type CallError struct{ Text string }

func (e *CallError) Error() string { return "the peer's handler: " + e.Text }

// NewCaller makes a caller of a connection, which can have one. Calls of a second one, which would
// take each other's answers, fail with an *ibv.ArgError, as do those of one that is made while this
// side serves the peer there. The Close of such a Caller leaves the connection open.
func NewCaller(c *Conn) *Caller {
	if !c.l.calls.CompareAndSwap(0, -1) {
		got := "one that has a Caller"
		if c.l.calls.Load() > 0 {
			got = "one that this side serves"
		}
		return &Caller{c: c, refused: c.taken("call", got)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Caller{c: c, cancel: cancel, done: make(chan struct{}), waiting: make(map[uint32]chan *Message)}
	go r.receive(ctx)
	return r
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
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
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
	if r.refused != nil {
		return nil, r.refused
	}
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
		r.mu.Lock()
		err := r.err
		r.mu.Unlock()
		return fail(&ibv.OpError{Op: "call", Object: "connection to " + r.c.RemoteAddr().String(), Err: err})
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
	if r.refused != nil {
		return nil
	}
	r.cancel()
	<-r.done
	return r.c.Close()
}

// Serve handles the calls of the peer's Caller until the peer closes the connection, which returns nil, or ctx ends.
// Each call runs handler on its own goroutine, up to 256 at a time; the request is valid until handler returns, and its
// result is the reply. Its error is sent to the caller as a *CallError, as is that of a reply that is larger than the
// caller accepts. On a connection with a Caller of this side it fails with an *ibv.ArgError.
func Serve(ctx context.Context, c *Conn, handler func(ctx context.Context, request *Message) ([]byte, error)) error {
	for n := c.l.calls.Load(); ; n = c.l.calls.Load() {
		if n < 0 {
			return c.taken("serve", "one that has a Caller")
		}
		if c.l.calls.CompareAndSwap(n, n+1) {
			break
		}
	}
	defer c.l.calls.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	slots := make(chan struct{}, callsMost)
	for {
		m, err := c.Recv(ctx)
		if err != nil {
			if err == io.EOF || errors.Is(err, ErrPeerClosed) {
				return nil
			}
			return err
		}
		id, ok := m.Imm()
		if !ok || id&callFailed != 0 {
			m.Release()
			return &ProtocolError{Frame: "DATA", Got: "a message without the number of a call", Want: "one of a Caller"}
		}
		slots <- struct{}{} // while all are busy, the peer's credits run out
		running.Go(func() {
			defer func() { <-slots }()
			answer, err := handler(ctx, m)
			if err == nil {
				err = c.SendImm(ctx, id, answer)
				if !errors.Is(err, ErrTooLarge) {
					err = nil // the connection has ended: Recv returns why
				}
			}
			if err != nil {
				text := err.Error()
				_ = c.SendImm(ctx, id|callFailed, []byte(text[:min(len(text), c.Peer().MaxMessage)]))
			}
			m.Release()
		})
	}
}
