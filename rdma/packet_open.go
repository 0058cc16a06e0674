package rdma

import (
	"cmp"
	"context"
	"errors"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/packet"
)

// ListenPacket opens a socket for datagrams at host:port. The host must be an address of a device;
// port 0 is any free port. opt may be nil. ctx bounds the lookup of the host only: Close closes the
// socket.
func ListenPacket(ctx context.Context, addr string, opt *Options) (*PacketConn, error) {
	c, err := listenPacket(ctx, addr, opt)
	return openedPacket("listen", addr, c, err)
}

// openedPacket returns a socket to the program.
func openedPacket(op, addr string, c *packet.Conn, err error) (*PacketConn, error) {
	if err != nil {
		return nil, netOp(op, nil, addrOf("udp", addr), &ibv.OpError{Op: op, Object: addr, Err: public(err)})
	}
	c.Opened = leak.Track("packet socket at " + c.At.Local.String())
	return &PacketConn{c}, nil
}

func listenPacket(ctx context.Context, addr string, opt *Options) (*packet.Conn, error) {
	opt = cmp.Or(opt, &Options{})
	if err := opt.check(callListenPacket); err != nil {
		return nil, err
	}
	c, err := packet.New(opt.packet())
	if err != nil {
		return nil, err
	}
	at, err := packetLookup(ctx, addr)
	if err == nil {
		err = c.Open(at[0])
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// DialPacket opens a socket for datagrams to and from host:port, where ListenPacket listens. The addresses of a host
// name are tried as by Dial, until one replies. ctx bounds the call only: Close closes the socket.
func DialPacket(ctx context.Context, addr string, opt *Options) (*PacketConn, error) {
	c, err := dialPacket(ctx, addr, opt)
	return openedPacket("dial", addr, c, err)
}

func dialPacket(ctx context.Context, addr string, opt *Options) (*packet.Conn, error) {
	opt = cmp.Or(opt, &Options{})
	if err := opt.check(callDialPacket); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, opt.dialTime())
	defer cancel()
	addrs, err := packetLookup(ctx, addr)
	if err != nil {
		return nil, err
	}
	return attempts.Dial(ctx, addrs, opt.LocalAddr.Addr(), func(ctx context.Context, to netip.AddrPort) (*packet.Conn,
		error) {
		c, err := packet.New(opt.packet())
		if err != nil {
			return nil, err
		}
		if err := c.Dial(ctx, to); err != nil {
			return nil, errors.Join(public(err), c.Close())
		}
		return c, nil
	}, func(c *packet.Conn) { _ = c.Close() })
}

// packetLookup returns the addresses of host:port.
func packetLookup(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	list, err := lookUp(ctx, "udp", addr)
	if err == nil && list[0].Addr().IsUnspecified() {
		return nil, &ibv.ArgError{Arg: "host", Got: list[0].Addr().String(), Want: oneDevice}
	}
	return list, err
}

const oneDevice = "an address: a queue pair is on one device"

// packet returns the options of a socket.
func (o *Options) packet() packet.Options {
	return packet.Options{TOS: o.TOS, ReuseAddr: o.ReuseAddr, From: o.LocalAddr,
		Ask: cmp.Or(o.Timeout, packet.Timeout), Use: o.useEngine, Addr: newPacketAddr}
}
