package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/ibv"
)

// slots is how many addresses are exchanged with shared receive queues, used or not.
const slots = 256

// addressLen is the length of "LID:QPN:PSN:GID" with the zero byte at its end, as in addressPattern.
const addressLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1

const done = "done\x00"

var addressPattern = regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{32})\x00$`)

// exchange sends the addresses of our queue pairs to the peer, and calls connect with the peer's.
//
//	client                                   server, TCP port 18515
//	addresses, 52 bytes each           ──►
//	                                         connects its queue pairs
//	                                   ◄──   addresses, 52 bytes each
//	"done" and a zero byte, closes     ──►   closes
//	connects its queue pairs
//	first message                      ══►   over RDMA, not TCP
//
// With shared receive queues both sides send 256 addresses, those of queue pairs that are not used
// all zero.
func exchange(ctx context.Context, o *options, out io.Writer, mine []ibv.Endpoint,
	connect func(peers []ibv.Endpoint) error) (err error) {
	defer program.Catch(&err)
	total := 1
	if o.kind == "srq" {
		total = slots
	}
	var text strings.Builder
	for i := range total {
		var e ibv.Endpoint
		if i < len(mine) {
			e = o.announced(mine[i])
			printAddress(out, "local", e)
		}
		fmt.Fprintf(&text, "%04x:%06x:%06x:%x\x00", e.LID, e.QPN, e.PSN, e.GID[:])
	}
	var conn net.Conn
	meet(ctx, o, 1, func(_ int, c net.Conn) { conn = c })
	defer conn.Close()
	program.Check(conn.SetDeadline(time.Now().Add(o.timeout)))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	talk := func() (err error) {
		defer program.Catch(&err)
		if !o.server() {
			tell(conn, text.String())
		}
		peers := program.Must(parseAddresses(hear(conn, total*addressLen), mine))
		for _, p := range peers {
			printAddress(out, "remote", p)
		}
		if !o.server() {
			tell(conn, done)
			return connect(peers)
		}
		program.Check(connect(peers)) // before the client knows where to send
		tell(conn, text.String())
		s := hear(conn, len(done))
		return program.Want(s == done, "the client confirms with %q, want %q", s, done)
	}
	if err := talk(); err != nil {
		return fmt.Errorf("exchange of addresses with %v: %w", conn.RemoteAddr(), cmp.Or(ctx.Err(), err))
	}
	return nil
}

// tell writes at once: the peer reads once.
func tell(w io.Writer, text string) { program.Must(io.WriteString(w, text)) }

func hear(r io.Reader, n int) string {
	b := make([]byte, n)
	program.Must(io.ReadFull(r, b))
	return string(b)
}

func printAddress(out io.Writer, whose string, e ibv.Endpoint) {
	fmt.Fprintf(out, "  %-15s LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %s\n", whose+" address:", e.LID, e.QPN, e.PSN,
		e.GID)
}

// meet dials the server, or waits for so many clients, however long they take.
func meet(ctx context.Context, o *options, clients int, with func(i int, conn net.Conn)) {
	addr := net.JoinHostPort(o.host, strconv.Itoa(o.tcpPort))
	if !o.server() {
		with(0, program.Must((&net.Dialer{Timeout: o.timeout}).DialContext(ctx, "tcp", addr)))
		return
	}
	l := program.Must(new(net.ListenConfig).Listen(ctx, "tcp", addr))
	defer l.Close() // others are refused
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for i := range clients {
		conn, err := l.Accept()
		program.Check(cmp.Or(ctx.Err(), err))
		with(i, conn)
	}
}

// announced returns the part of an endpoint that the peer gets. The stock tools take a GID as the wish for a global
// route, so there is none if a LID is enough.
func (o *options) announced(e ibv.Endpoint) ibv.Endpoint {
	if o.gid == ibv.BestGID && e.LID != 0 && !e.GRH {
		e.GID = ibv.GID{}
	}
	return e
}

// parseAddresses reads the peer's addresses, one for each of ours.
func parseAddresses(text string, mine []ibv.Endpoint) ([]ibv.Endpoint, error) {
	var peers []ibv.Endpoint
	for ; text != ""; text = text[addressLen:] {
		m := addressPattern.FindStringSubmatch(text[:addressLen])
		if m == nil {
			return nil, fmt.Errorf("address %.60q: want LID:QPN:PSN:GID and a zero byte", text)
		}
		var n [3]uint64
		for i := range n {
			n[i], _ = strconv.ParseUint(m[i+1], 16, 32)
		}
		if n[1] == 0 {
			continue // not used
		}
		e := ibv.Endpoint{Type: mine[0].Type, LID: uint16(n[0]), QPN: uint32(n[1]), PSN: uint32(n[2]),
			QKey: mine[0].QKey}
		_, _ = hex.Decode(e.GID[:], []byte(m[4]))
		e.GRH = !e.GID.IsZero()
		peers = append(peers, e)
	}
	if len(peers) != len(mine) {
		return nil, fmt.Errorf("the peer has %d queue pairs, want %d as on this side", len(peers), len(mine))
	}
	return peers, nil
}
