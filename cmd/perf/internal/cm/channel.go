package cm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Sizes of a Channel. The longest message is perftest 6.28's list of parameters.
const (
	maxMessage = 512
	slots      = 16 // messages that may arrive before somebody reads them
)

// IDs of work requests.
const sendID = slots

// Channel is a net.Conn over the queue pair of an rdma_cm connection: each Write
// is one message, and Read reads message after message. One goroutine may read
// and one may write at a time; Close and the deadlines are safe for concurrent use.
type Channel struct {
	conn *rdmacm.Conn
	mr   *ibv.MR

	inbox chan []byte
	sent  chan error
	stop  func()        // ends the pump
	over  chan struct{} // closed when nothing comes any more
	err   error         // why; before over is closed it is the pump's

	mu          sync.Mutex // held by Write while it uses the memory, and by Close
	rest        []byte     // of the message that Read is at
	read, write deadline.Deadline
}

// prepare makes the memory and posts the receives, before the peer can send.
func (c *Channel) prepare(conn *rdmacm.Conn) error {
	mr, err := conn.PD().AllocMR((slots+1)*maxMessage, ibv.LocalWrite, nil)
	if err != nil {
		return err
	}
	conn.OnClose(mr.Close)
	c.conn, c.mr = conn, mr
	for i := range slots {
		if err := c.post(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *Channel) post(slot int) error {
	_, err := c.conn.QP().PostRecv([]ibv.RecvWR{{ID: uint64(slot),
		SGEs: []ibv.SGE{c.mr.SGE(slot*maxMessage, maxMessage)}}})
	return err
}

// options are those of the channel's connection, on top of the common ones.
func (c *Channel) options(o rdmacm.Options) *rdmacm.Options {
	o.QP = ibv.QPOptions{MaxSendWR: 2, MaxRecvWR: slots}
	o.Prepare = c.prepare
	return &o
}

func newChannel() *Channel {
	return &Channel{inbox: make(chan []byte, slots), sent: make(chan error, 1), over: make(chan struct{})}
}

// start begins to receive.
func (c *Channel) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	go func() {
		<-c.conn.Done()
		cancel()
	}()
	go c.pump(ctx)
}

// pump polls completions until the connection is over.
func (c *Channel) pump(ctx context.Context) {
	defer close(c.over)
	var wcs [slots]ibv.WC
	for {
		n, err := c.conn.CQ().Wait(ctx, wcs[:])
		if err != nil {
			// Messages that the peer sent before it left are still there.
			n, _ = c.conn.CQ().Poll(wcs[:])
		}
		for i := range n {
			if werr := c.complete(&wcs[i]); werr != nil && err == nil {
				err = werr
			}
		}
		if err != nil {
			c.err = err
			return
		}
	}
}

func (c *Channel) complete(wc *ibv.WC) error {
	if wc.ID == sendID {
		select {
		case c.sent <- wc.Err():
		default: // no goroutine waits for it any more
		}
		return nil
	}
	if err := wc.Err(); err != nil {
		return err
	}
	slot := int(wc.ID)
	if c.mr.Bytes()[slot*maxMessage] == wire.Heartbeat && wc.ByteLen == 1 && len(c.inbox) > 0 {
		return c.post(slot) // the peer was alive: what waits shows that too
	}
	m := append([]byte(nil), c.mr.Bytes()[slot*maxMessage:][:wc.ByteLen]...)
	select {
	case c.inbox <- m:
	default:
		return fmt.Errorf("more than %d unexpected messages", slots)
	}
	return c.post(slot)
}

// end explains why nothing comes any more.
// Preconditions: c.over is closed.
func (c *Channel) end() error {
	err := c.conn.Err()
	switch {
	case err == nil && errors.Is(c.err, context.Canceled): // Close has begun
		return net.ErrClosed
	case err == nil:
		return c.err
	case errors.Is(err, rdmacm.ErrDisconnected):
		return io.EOF
	}
	return err
}

// Read reads from the next message, or what is left of the last one.
func (c *Channel) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for len(c.rest) == 0 {
		select {
		case c.rest = <-c.inbox:
			continue
		default:
		}
		select {
		case c.rest = <-c.inbox:
		case <-c.read.Past():
			return 0, os.ErrDeadlineExceeded
		case <-c.over:
			select {
			case c.rest = <-c.inbox:
			default:
				return 0, c.end()
			}
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write sends one message and waits until it has arrived.
func (c *Channel) Write(b []byte) (int, error) {
	if len(b) > maxMessage {
		return 0, fmt.Errorf("message of %d bytes > %d", len(b), maxMessage)
	}
	if deadline.IsClosed(c.write.Past()) {
		return 0, os.ErrDeadlineExceeded
	}
	if err := c.send(b); err != nil {
		if c.conn.Err() != nil {
			return 0, io.EOF
		}
		return 0, err
	}
	var err error
	select {
	case err = <-c.sent:
	case <-c.write.Past():
		return 0, os.ErrDeadlineExceeded
	case <-c.over:
		select {
		case err = <-c.sent:
		default:
			err = c.end()
		}
	}
	if err != nil {
		if errors.Is(c.conn.Err(), rdmacm.ErrDisconnected) {
			err = io.EOF
		}
		return 0, err
	}
	return len(b), nil
}

// send posts a message.
func (c *Channel) send(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if deadline.IsClosed(c.over) { // and the memory may be gone
		return c.end()
	}
	copy(c.mr.Bytes()[slots*maxMessage:], b)
	_, err := c.conn.QP().PostSend([]ibv.SendWR{{ID: sendID, Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{c.mr.SGE(slots*maxMessage, len(b))}}})
	return err
}

// Watch calls gone once when the connection ends, unless there is a message to
// read. The function that it returns ends the watch.
func (c *Channel) Watch(gone func()) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-quit:
		case <-c.over:
			if len(c.inbox) == 0 && len(c.rest) == 0 {
				gone()
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-ended
	})
}

// greeting waits for a client's first message, and returns why it is none. Read returns that message.
// Preconditions: nothing was read.
func (c *Channel) greeting(ctx context.Context, limit time.Duration) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case c.rest = <-c.inbox:
		return wire.Greeting(c.rest)
	case <-c.over:
		if len(c.inbox) > 0 {
			c.rest = <-c.inbox
			return wire.Greeting(c.rest)
		}
		if bad := (*ibv.WCError)(nil); errors.As(c.err, &bad) && bad.Status != ibv.WCWRFlushErr {
			return fmt.Errorf("%w: %w", wire.ErrGarbage, c.err) // a message that does not fit
		}
		return wire.ErrClosed
	case <-late.C:
		return fmt.Errorf("%w for %v", wire.ErrSilent, limit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the connection.
func (c *Channel) Close() error {
	c.stop() // before the memory goes that pump reads
	<-c.over
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn.Close()
}

// Conn returns the connection.
func (c *Channel) Conn() *rdmacm.Conn { return c.conn }

// LocalAddr returns this end's address.
func (c *Channel) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.conn.LocalAddr()) }

// RemoteAddr returns the peer's address.
func (c *Channel) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.conn.RemoteAddr()) }

// SetDeadline bounds Read and Write.
func (c *Channel) SetDeadline(t time.Time) error {
	c.read.Set(t)
	c.write.Set(t)
	return nil
}

// SetReadDeadline bounds Read.
func (c *Channel) SetReadDeadline(t time.Time) error {
	c.read.Set(t)
	return nil
}

// SetWriteDeadline bounds Write.
func (c *Channel) SetWriteDeadline(t time.Time) error {
	c.write.Set(t)
	return nil
}
