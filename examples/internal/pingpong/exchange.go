package pingpong

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// addressLen is the length of "LID:QPN:PSN:GID" with its zero byte.
const addressLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1

var done = []byte("done\x00")

// Exchange sends the addresses of our queue pairs to the peer, and calls connect with the peer's
// addresses, one for each of ours.
//
// The server connects before it answers, so that it is ready when the client,
// which connects last, sends the first message.
func Exchange(ctx context.Context, o *Options, out io.Writer, mine []ibv.Endpoint,
	connect func(peers []ibv.Endpoint) error) error {
	mine = append([]ibv.Endpoint(nil), mine...)
	for i := range mine {
		if o.GID == ibv.BestGID && mine[i].LID != 0 {
			// On InfiniBand the LID is enough, and the stock tools take a GID as
			// the wish for a global route.
			mine[i].GID = ibv.GID{}
		}
		printAddress(out, "local", mine[i])
	}
	x := &exchange{o: o, mine: mine}
	conn, err := x.meet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(o.Timeout)); err != nil {
		return err
	}
	x.ctx, x.conn = ctx, conn
	connectPeers := func(peers []ibv.Endpoint) error {
		for _, p := range peers {
			printAddress(out, "remote", p)
		}
		return connect(peers)
	}
	if o.IsServer() {
		return x.serve(connectPeers)
	}
	peers, err := x.call()
	if err != nil {
		return err
	}
	return connectPeers(peers)
}

func printAddress(out io.Writer, whose string, e ibv.Endpoint) {
	fmt.Fprintf(out, "  %-15s LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %s\n", whose+" address:", e.LID,
		e.QPN, e.PSN, e.GID)
}

type exchange struct {
	o    *Options
	mine []ibv.Endpoint
	ctx  context.Context
	conn net.Conn
}

// meet dials the server, or waits for a client as long as ctx lasts.
func (x *exchange) meet(ctx context.Context) (net.Conn, error) {
	addr := net.JoinHostPort(x.o.Server, strconv.Itoa(x.o.TCPPort))
	if !x.o.IsServer() {
		d := net.Dialer{Timeout: x.o.Timeout}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, &ExchangeError{Step: "connect", Peer: addr, Err: err}
		}
		return conn, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &ExchangeError{Step: "listen", Peer: "clients", Err: err}
	}
	defer l.Close() // one client; others are refused
	defer context.AfterFunc(ctx, func() { l.Close() })()
	conn, err := l.Accept()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, &ExchangeError{Step: "wait", Peer: "clients", Err: err}
	}
	return conn, nil
}

func (x *exchange) serve(connect func([]ibv.Endpoint) error) error {
	peers, err := x.readAddresses()
	if err != nil {
		return err
	}
	if err := connect(peers); err != nil {
		return err
	}
	if err := x.writeAddresses(); err != nil {
		return err
	}
	got := make([]byte, len(done))
	if _, err := io.ReadFull(x.conn, got); err != nil {
		return x.fail("read the client's confirmation", err)
	}
	if !bytes.Equal(got, done) {
		return x.fail("read the client's confirmation", &MessageError{"confirmation", quote(got), quote(done)})
	}
	return nil
}

func (x *exchange) call() ([]ibv.Endpoint, error) {
	if err := x.writeAddresses(); err != nil {
		return nil, err
	}
	peers, err := x.readAddresses()
	if err != nil {
		return nil, err
	}
	if _, err := x.conn.Write(done); err != nil {
		return nil, x.fail("confirm", err)
	}
	return peers, nil
}

func (x *exchange) fail(step string, err error) error {
	if x.ctx.Err() != nil {
		err = x.ctx.Err()
	}
	return &ExchangeError{Step: step, Peer: x.conn.RemoteAddr().String(), Err: err}
}

// slots returns how many addresses are exchanged.
func (x *exchange) slots() int {
	if x.o.Program.QPs != 0 {
		return MaxQPs
	}
	return 1
}

// writeAddresses writes all at once: the stock tools read each with one read.
func (x *exchange) writeAddresses() error {
	var b bytes.Buffer
	for i := range x.slots() {
		var e ibv.Endpoint
		if i < len(x.mine) {
			e = x.mine[i]
		}
		b.WriteString(formatAddress(e))
	}
	if _, err := x.conn.Write(b.Bytes()); err != nil {
		return x.fail("tell our address", err)
	}
	return nil
}

func (x *exchange) readAddresses() ([]ibv.Endpoint, error) {
	const step = "read the peer's address"
	b := make([]byte, x.slots()*addressLen)
	if _, err := io.ReadFull(x.conn, b); err != nil {
		return nil, x.fail(step, err)
	}
	var peers []ibv.Endpoint
	for ; len(b) > 0; b = b[addressLen:] {
		e, err := parseAddress(b[:addressLen])
		if err != nil {
			return nil, x.fail(step, err)
		}
		if e.QPN != 0 {
			e.Type, e.QKey = x.mine[0].Type, x.mine[0].QKey
			peers = append(peers, e)
		}
	}
	if len(peers) != len(x.mine) {
		return nil, x.fail(step, &MessageError{"queue pairs", strconv.Itoa(len(peers)),
			fmt.Sprintf("%d as on this side", len(x.mine))})
	}
	return peers, nil
}

func formatAddress(e ibv.Endpoint) string {
	return fmt.Sprintf("%04x:%06x:%06x:%x\x00", e.LID, e.QPN, e.PSN, e.GID[:])
}

func parseAddress(b []byte) (ibv.Endpoint, error) {
	text, zero := strings.CutSuffix(string(b), "\x00")
	parts := strings.Split(text, ":")
	if !zero || len(parts) != 4 || len(b) != addressLen {
		return ibv.Endpoint{}, &MessageError{"address", quote(b), "LID:QPN:PSN:GID and a zero byte"}
	}
	var e ibv.Endpoint
	var err error
	number := func(field, s string, digits, bits int) uint32 {
		n, perr := strconv.ParseUint(s, 16, bits)
		if err == nil && (perr != nil || len(s) != digits) {
			err = &MessageError{field, quote([]byte(s)), fmt.Sprintf("%d hex digits", digits)}
		}
		return uint32(n)
	}
	e.LID = uint16(number("lid", parts[0], 4, 16))
	e.QPN = number("qpn", parts[1], 6, 24)
	e.PSN = number("psn", parts[2], 6, 24)
	if n, herr := hex.Decode(e.GID[:], []byte(parts[3])[:min(len(parts[3]), 32)]); err == nil &&
		(herr != nil || n != len(e.GID)) {
		err = &MessageError{"gid", quote([]byte(parts[3])), "32 hex digits"}
	}
	return e, err
}
