package cm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Listener waits for one client and turns others away while it is served.
type Listener struct {
	ln   *rdmacm.Listener
	data *rdmacm.Listener // of queue pairs of UD
	opt  Options
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// Listen listens on a port of all addresses, or of one if addr names it.
func Listen(ctx context.Context, addr string, port int, o Options) (*Listener, error) {
	opt := o.common()
	ln, err := rdmacm.Listen(ctx, net.JoinHostPort(addr, strconv.Itoa(port)), &opt)
	if err != nil {
		return nil, fmt.Errorf("listen on rdma_cm port %d: %w; another server may be using it, choose one with -p",
			port, err)
	}
	l := &Listener{ln: ln, opt: o}
	if o.Datagrams {
		at := net.JoinHostPort(addr, strconv.Itoa(int(ln.Addr().Port())))
		opt := rdmacm.Options{PortSpace: rdmacm.PortSpaceUDP, Timeout: o.Timeout}
		if l.data, err = rdmacm.Listen(ctx, at, &opt); err != nil {
			err = fmt.Errorf("listen on rdma_cm port %d for datagrams: %w", ln.Addr().Port(), err)
			return nil, errors.Join(err, ln.Close())
		}
	}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l, nil
}

// queues is where the requests for queue pairs come.
func (l *Listener) queues() *rdmacm.Listener {
	if l.data != nil {
		return l.data
	}
	return l.ln
}

// Port returns the port.
func (l *Listener) Port() int { return int(l.ln.Addr().Port()) }

// mostStrange is how many connections are listened to at the same time.
const mostStrange = 16

// Accept waits for the client: the first connection whose first message is a version. Its error of a device that check
// refuses is check's. A request of something else does not end it, nor does one that fails because of the peer, nor a
// connection without such a message: strange gets its address and what is wrong with it.
func (l *Listener) Accept(ctx context.Context, check func(device string, port uint8) error,
	strange func(addr string, why error)) (*Peer, error) {
	listen, stop := context.WithCancel(ctx)
	defer stop()
	var (
		wg     sync.WaitGroup
		once   sync.Once // of the next two
		client *Peer
		failed error
	)
	end := func(p *Peer, err error) (first bool) {
		once.Do(func() { client, failed, first = p, err, true; stop() })
		return first
	}
	room := make(chan struct{}, mostStrange)
	for {
		r, err := l.ln.Next(listen)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			end(nil, fmt.Errorf("wait for a client: %w", err))
			wg.Wait()
			return client, failed
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			p, err := l.hear(listen, r, check)
			if p == nil && err == nil || listen.Err() != nil && p == nil {
				return
			}
			if odd := (*strangeError)(nil); errors.As(err, &odd) {
				strange(r.RemoteAddr().String(), odd.why)
			} else if !end(p, err) && p != nil {
				_ = p.Close() // it lost to another client by a moment
			}
		})
	}
}

// strangeError is why a connection is no client's.
type strangeError struct{ why error }

func (e *strangeError) Error() string { return e.why.Error() }

// hear accepts a request and returns the client if it is one, nothing if it is of no concern, or an error, which ends
// the wait unless it is a *strangeError.
func (l *Listener) hear(ctx context.Context, r *rdmacm.Request,
	check func(device string, port uint8) error) (*Peer, error) {
	kind, t, _, ours := parse(r.PrivateData())
	switch {
	case ours && kind != exchange:
		_ = r.Reject([]byte(busy)) // of a test that is over
		return nil, nil
	case !ours && !empty(r.PrivateData()), !l.opt.Secret.ProvedBy(behind(r.PrivateData())):
		_ = r.Reject([]byte(refusal))
		return nil, nil
	}
	right := func() error {
		dev, err := r.ID().Verbs()
		if err == nil {
			err = check(dev.Name(), r.ID().Port())
		}
		return err
	}
	if ours { // a stock client has to prove itself first, and would not understand the refusal
		if err := right(); err != nil {
			return nil, errors.Join(err, r.Reject([]byte(refusal)))
		}
	}
	ch := newChannel()
	if _, err := r.Accept(ctx, ch.options(l.opt.common())); err != nil && (ctx.Err() != nil || byPeer(err)) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	ch.start()
	err := ch.greeting(ctx, min(l.opt.Timeout, wire.GreetingTime))
	if err != nil {
		return nil, &strangeError{errors.Join(err, ch.Close())}
	}
	if !ours {
		if err := right(); err != nil {
			return nil, errors.Join(err, ch.Close())
		}
	}
	return &Peer{Channel: ch, opt: l.opt, token: t, ours: ours, ln: l}, nil
}

// byPeer reports whether a request could not be accepted because of the peer: it has left, or asks for more than there
// is.
func byPeer(err error) bool {
	var (
		event  *rdmacm.EventError
		reject *rdmacm.RejectError
		limit  *ibv.LimitError
	)
	return errors.As(err, &event) && event.Type != rdmacm.EventDeviceRemoval || errors.As(err, &reject) ||
		errors.As(err, &limit) || errors.Is(err, rdmacm.ErrWithdrawn) || errors.Is(err, context.DeadlineExceeded)
}

// refuse replies to each further client with "busy".
func (l *Listener) refuse() {
	l.wg.Go(func() {
		for {
			r, err := l.ln.Next(l.ctx)
			if err != nil {
				return
			}
			_ = r.Reject([]byte(busy))
		}
	})
}

// Close stops listening and waits until nothing of it is left running.
func (l *Listener) Close() error {
	l.stop()
	l.wg.Wait()
	var err error
	if l.data != nil {
		err = l.data.Close()
	}
	return errors.Join(err, l.ln.Close())
}
