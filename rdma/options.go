package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Options configure Dial, Listen and similar functions. The zero value selects the defaults. A field that is set and
// does not apply to the call is an *ibv.ArgError that names both. Fields that do not name their calls apply to all of
// them.
type Options struct {
	// Engine is the engine of the connections. nil means the shared one of the device that the address leads to. A Pipe
	// has its own.
	Engine *Engine
	// MaxMessage, of Dial, Listen and Pipe, is the longest message that this side receives, in bytes; the peer's Send
	// refuses longer ones. 0 means 16 MiB; 2 GiB - 1 is the most.
	MaxMessage int
	// KeepAlive, of connections, not of datagrams, is how long the connection may be idle, in whole seconds, before the
	// peer's adapter has to acknowledge a frame. 0 means 15 s, None never.
	KeepAlive time.Duration
	// Leases, of Dial, Listen and Pipe, allow remote memory on a Conn, if the peer's Options also have them. With nil,
	// its QP refuses every read, write and atomic of the peer.
	Leases *LeaseOptions
	// Linger, of connections, is the longest that Close waits until the peer's adapter has all that was accepted. 0
	// means 5 s. With None, Close does not wait, and the engine goes on sending for up to 5 s.
	Linger time.Duration
	// PrivateData, of Dial, DialStream, Listen and Pipe, is the program's own, at most 16 bytes: the peer's Conn.Peer
	// returns it, and its Authorize sees it.
	PrivateData []byte
	// Fallback, for streams only, lets TCP carry what RDMA cannot. ListenStream also listens on the
	// same port of TCP, for any client. DialStream tries TCP as soon as RDMA has failed, or 300 ms
	// after it has begun. The first connection is used, and the other one is closed.
	// Stream.Transport returns which it is, and the log names it once. PrivateData is sent over RDMA only.
	Fallback bool

	// Authorize, of a listener, decides whether a peer may connect. It sees the peer's address and private data before
	// the peer receives a reply, and an error refuses the peer with RejectedByAuthorize. It runs for each peer on a
	// goroutine of its own, with no lock held and up to 1,024 at a time. ctx ends with the time for the handshake (see
	// Timeout), or when the listener closes. Then the peer is refused, whatever Authorize returns later, and a call
	// that does not return takes no place. nil permits every peer. A panic of Authorize ends the program.
	//
	// It does not prove who the peer is. A host on the fabric can send from another's address, and private data is
	// neither encrypted nor signed, so it can be read and repeated. TLS over a Stream authenticates and encrypts. With
	// Fallback, Authorize also sees the peers that come by TCP, which have no private data.
	Authorize func(ctx context.Context, r ConnRequest) error

	// LocalAddr, of Dial, DialStream and DialPacket, is the address and port from which it connects. The zero value
	// lets the system choose.
	LocalAddr netip.AddrPort
	// Timeout bounds Dial, in addition to its context, each handshake of a listener, and each time that a PacketConn
	// looks for a peer. 0 means 30 s, and 6 s for a handshake. A Pipe has none.
	Timeout time.Duration
	// Backlog, of Listen and ListenStream, is how many connections a listener keeps until they are accepted. 0 means
	// 4096; 65536 is the most.
	Backlog int
	// ReuseAddr lets a listener, or LocalAddr, use a port that a closed connection still holds. A Pipe has no port.
	ReuseAddr bool
	// AFOnly, of Listen and ListenStream, makes a listener on [::] refuse IPv4.
	AFOnly bool
	// TOS is the type of service, or traffic class, of the packets. 0 means the system's. On InfiniBand and RoCE the
	// packets of both ends have Dial's. A Pipe has no packets.
	TOS uint8
	// AckTimeout, of connections other than a Pipe's, is how long the adapter waits for an acknowledgement before it
	// sends a packet again, rounded up to 4.096 µs·2^n. 0 means the path's, None never.
	AckTimeout time.Duration
	// RetryCount, of Dial and DialStream, is how often the adapters of both ends send a packet again that is not
	// acknowledged: 1 to 7, or None for never. 0 means 7.
	RetryCount int

	// Logger gets the lines about these connections and the listener. nil means slog.Default.
	Logger *slog.Logger

	fallbackAfter time.Duration // in place of the 300 ms
}

// ConnRequest is a peer's request for a connection.
type ConnRequest struct {
	LocalAddr, RemoteAddr netip.AddrPort
	PrivateData           []byte // of the peer's Options, padded with zeros to 16 bytes; nil by TCP
}

const (
	defaultMaxMessage = 16 << 20
	defaultKeepAlive  = 15 * time.Second
	defaultBacklog    = 4096
	maxBacklog        = 1 << 16
	maxRetry          = 7
	dialTime          = 30 * time.Second
	// handshakeTime is how long a peer has for a handshake. A reply that is lost is sent again after 4.3 s.
	handshakeTime = 6 * time.Second
)

func (o *Options) backlog() int                 { return cmp.Or(o.Backlog, defaultBacklog) }
func (o *Options) dialTime() time.Duration      { return cmp.Or(o.Timeout, dialTime) }
func (o *Options) handshakeTime() time.Duration { return cmp.Or(o.Timeout, handshakeTime) }
func (o *Options) maxMessage() int              { return cmp.Or(o.MaxMessage, defaultMaxMessage) }
func (o *Options) linger() time.Duration        { return cmp.Or(o.Linger, link.LingerTime) }

// cm returns the options of the connection manager.
func (o *Options) cm() rdmacm.Options {
	return rdmacm.Options{LocalAddr: o.LocalAddr, Timeout: o.dialTime(), ReuseAddr: o.ReuseAddr, AFOnly: o.AFOnly,
		TOS: o.TOS, AckTimeout: o.AckTimeout, RetryCount: o.RetryCount}
}

// link returns the options of a connection.
func (o *Options) link() link.Options {
	return link.Options{Log: o.Logger, MaxMessage: o.maxMessage(), KeepAlive: o.keepAliveTicks(), Linger: o.linger()}
}

func (o *Options) keepAliveTicks() uint32 {
	switch {
	case o.KeepAlive < 0:
		return 0
	case o.KeepAlive == 0:
		return uint32(defaultKeepAlive / time.Second)
	}
	return uint32(max(o.KeepAlive/time.Second, 1))
}

// check checks the options of a call.
func (o *Options) check(c call) error {
	if err := o.checkUses(c); err != nil {
		return err
	}
	if len(o.PrivateData) > wire.AppDataLen {
		return &ibv.LimitError{What: "bytes of PrivateData", Asked: uint64(len(o.PrivateData)), Limit: wire.AppDataLen,
			Where: "the handshake"}
	}
	return errors.Join(upTo("MaxMessage", o.MaxMessage, link.LongestMessage), upTo("Backlog", o.Backlog, maxBacklog),
		positive("KeepAlive", o.KeepAlive), positive("Linger", o.Linger), notNegative("Timeout", o.Timeout),
		o.checkRetry(), o.Leases.check())
}

// checkRetry checks what package rdmacm checks as well: with Fallback, TCP would hide that error.
func (o *Options) checkRetry() error {
	_, ok := ibv.TimeCodeFromDuration(o.AckTimeout)
	return errors.Join(refuse(o.RetryCount > maxRetry, "RetryCount", o.RetryCount,
		fmt.Sprintf("1 to %d, 0 for the default or None", maxRetry)),
		refuse(o.AckTimeout > 0 && !ok, "AckTimeout", o.AckTimeout, fmt.Sprintf("%v to %v, 0 for the path's or None",
			ibv.TimeCode(0).Duration(), ibv.TimeCode(31).Duration())),
		positive("AckTimeout", o.AckTimeout), positive("RetryCount", o.RetryCount))
}

// leases returns the LeaseOptions of a connection. Streams have none.
func (o *Options) leases(kind wire.ConnKind) *LeaseOptions {
	if kind != wire.Messages {
		return nil
	}
	return o.Leases
}

// useEngine has f use the engine for a device.
func (o *Options) useEngine(dev *ibv.Device, f func(*link.Engine) error) (*link.Engine, error) {
	if o.Engine == nil {
		return useShared(dev.Name(), func() (*Engine, error) { return NewEngine(dev.Name(), nil) }, f)
	}
	if have := o.Engine.e.Name(); have != dev.Name() {
		return nil, &ibv.ArgError{Arg: "Engine", Got: "one of " + have, Want: "one of " + dev.Name() +
			", the device that the address leads to"}
	}
	return o.Engine.e, f(o.Engine.e)
}
