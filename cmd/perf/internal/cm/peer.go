package cm

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Private data of requests and refusals.
const (
	magic    = "pverbs1\x00"
	exchange = 'x'
	queue    = 'q'
	dataLen  = 21
	busy     = "busy"
	refusal  = "no"
)

// ErrRefused means that the server does not take the connection at all: it wants
// another device, for example.
var ErrRefused error = &wire.MeetError{Err: errors.New("the server refused the connection; its output says why")}

type token [8]byte

func data(kind byte, t token, number int) []byte {
	b := append([]byte(magic), kind)
	b = append(b, t[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(number))
}

// parse reads private data; ours is false for a stock client's.
func parse(b []byte) (kind byte, t token, number int, ours bool) {
	if len(b) < dataLen || !bytes.HasPrefix(b, []byte(magic)) {
		return 0, t, 0, false
	}
	copy(t[:], b[9:])
	return b[8], t, int(binary.BigEndian.Uint32(b[17:])), true
}

// behind returns the private data after that of parse: the proof of a secret, if there is one.
func behind(b []byte) []byte { return b[min(dataLen, len(b)):] }

// empty reports whether there is no private data: it is filled up with zeros.
func empty(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// Options are the choices of both ends.
type Options struct {
	Timeout    time.Duration // of one connection
	Patience   time.Duration // how long a client tries to reach a server
	TOS        uint8
	AckTimeout uint8       // 0: the path's
	Datagrams  bool        // the queue pairs are of UD, the exchange is not
	IPv6       bool        // of a name, addresses of IPv6 alone
	Secret     wire.Secret // what the client has behind its private data, and the server asks for
	// Local is where a client comes from, for a server at an address; zero lets the
	// kernel choose. It may be nil.
	Local func(server netip.Addr) netip.Addr
}

func (o *Options) common() rdmacm.Options {
	c := rdmacm.Options{Timeout: o.Timeout, TOS: o.TOS, ReuseAddr: true}
	if o.AckTimeout != 0 {
		c.AckTimeout = ibv.TimeCode(o.AckTimeout).Duration()
	}
	return c
}

// Peer is the other end of a test.
type Peer struct {
	*Channel
	opt    Options
	token  token
	ours   bool           // server: the client is one of us
	server netip.AddrPort // client: where to connect to
	local  netip.AddrPort
	ln     *Listener // server
}

// Dial connects to a server for the exchange. While no server listens it tries again for Options.Patience.
func Dial(ctx context.Context, host string, port int, o Options) (*Peer, error) {
	name := net.JoinHostPort(host, strconv.Itoa(port))
	fail := func(err error) (*Peer, error) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("connect to %s by rdma_cm: %w", name, err)
	}
	network := "ip"
	if o.IPv6 {
		network = "ip6"
	}
	ips, err := wire.LookUp(ctx, network, host, o.Patience)
	if err != nil {
		return fail(err)
	}
	var errs []error
	for _, ip := range ips {
		p := &Peer{opt: o, server: netip.AddrPortFrom(ip.Unmap(), uint16(port))}
		if o.Local != nil {
			if a := o.Local(ip.Unmap()); a.IsValid() {
				p.local = netip.AddrPortFrom(a, 0)
			}
		}
		if _, err := rand.Read(p.token[:]); err != nil {
			return fail(err)
		}
		var ch *Channel
		_, err := p.retry(ctx, o.Patience, func() (*rdmacm.Conn, error) {
			ch = newChannel()
			opt := ch.options(o.common())
			opt.LocalAddr = p.local
			opt.PrivateData = append(data(exchange, p.token, 0), o.Secret.Proof()...)
			return rdmacm.DialAddr(ctx, p.server, opt)
		})
		if err == nil {
			ch.start()
			p.Channel = ch
			return p, nil
		}
		errs = append(errs, err)
	}
	return fail(errors.Join(errs...))
}

type dialer func() (*rdmacm.Conn, error)

// retry tries until somebody listens.
func (p *Peer) retry(ctx context.Context, patience time.Duration, dial dialer) (*rdmacm.Conn, error) {
	end := time.Now().Add(patience)
	for {
		c, err := dial()
		var no *rdmacm.RejectError
		switch {
		case err == nil:
			return c, nil
		case !errors.As(err, &no):
			return nil, err
		case bytes.HasPrefix(no.PrivateData, []byte(busy)):
			return nil, wire.ErrBusy
		case bytes.HasPrefix(no.PrivateData, []byte(refusal)):
			return nil, ErrRefused
		case time.Now().After(end):
			return nil, fmt.Errorf("%w; no server is listening there with -R (or -z), or it is serving another client",
				err)
		}
		if !tick.Wait(ctx, 50*time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
}

// QP connects queue pair i; o has its PD, CQs and sizes. It gives up when the
// connection for the exchange ends.
func (p *Peer) QP(ctx context.Context, i int, o rdmacm.Options) (*rdmacm.Conn, error) {
	c := p.opt.common()
	o.Timeout, o.TOS, o.AckTimeout = c.Timeout, c.TOS, c.AckTimeout
	if p.opt.Datagrams {
		o.PortSpace, o.AckTimeout, o.RetryCount = rdmacm.PortSpaceUDP, 0, 0
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer p.Watch(func() { cancel(wire.ErrClosed) })()
	var (
		conn *rdmacm.Conn
		err  error
	)
	if p.ln == nil {
		o.LocalAddr, o.PrivateData = p.local, data(queue, p.token, i)
		conn, err = p.retry(ctx, p.opt.Timeout, func() (*rdmacm.Conn, error) {
			return rdmacm.DialAddr(ctx, p.server, &o)
		})
	} else {
		o.RetryCount = 0 // the client's is used
		conn, err = p.accept(ctx, i, &o)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return conn, err
}

func (p *Peer) accept(ctx context.Context, i int, o *rdmacm.Options) (*rdmacm.Conn, error) {
	wait, cancel := context.WithTimeoutCause(ctx, p.opt.Timeout, fmt.Errorf("%w for %v", wire.ErrSilent, p.opt.Timeout))
	defer cancel()
	for {
		r, err := p.ln.queues().Next(wait)
		if err != nil {
			if wait.Err() != nil {
				err = context.Cause(wait)
			}
			return nil, err
		}
		if p.asks(r.PrivateData(), i) {
			return r.Accept(ctx, o)
		}
		_ = r.Reject([]byte(busy))
	}
}

// asks reports whether a request with such private data is for queue pair i of this client. That of a stock client does
// not show whose it is. Its address is of the device that the client chose, which need not be that of the exchange.
// So the numbers of the queue pairs, which the client sends next, have to prove it.
func (p *Peer) asks(private []byte, i int) bool {
	kind, t, n, ours := parse(private)
	if ours || p.ours {
		return ours && p.ours && kind == queue && t == p.token && n == i
	}
	return empty(private)
}

// Ready has a server refuse all further clients.
func (p *Peer) Ready() {
	if p.ln != nil {
		p.ln.refuse()
	}
}
