package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

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
	connect func(peers []ibv.Endpoint) error) error {
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
	conn, err := meet(ctx, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(o.timeout)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	tell := func() error { _, err := io.WriteString(conn, text.String()); return err } // at once: the peer reads once
	hear := func(n int) (string, error) {
		b := make([]byte, n)
		_, err := io.ReadFull(conn, b)
		return string(b), err
	}
	talk := func() error {
		if !o.server() {
			if err := tell(); err != nil {
				return err
			}
		}
		theirs, err := hear(total * addressLen)
		if err != nil {
			return err
		}
		peers, err := parseAddresses(theirs, mine)
		if err != nil {
			return err
		}
		for _, p := range peers {
			printAddress(out, "remote", p)
		}
		if !o.server() {
			if _, err := io.WriteString(conn, done); err != nil {
				return err
			}
			return connect(peers)
		}
		if err := connect(peers); err != nil { // before the client knows where to send
			return err
		}
		if err := tell(); err != nil {
			return err
		}
		s, err := hear(len(done))
		return errors.Join(err, want(err != nil || s == done, "the client confirms with %q, want %q", s, done))
	}
	if err := talk(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("exchange of addresses with %v: %w", conn.RemoteAddr(), err)
	}
	return nil
}

func printAddress(out io.Writer, whose string, e ibv.Endpoint) {
	fmt.Fprintf(out, "  %-15s LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %s\n", whose+" address:", e.LID, e.QPN, e.PSN,
		e.GID)
}

// meet dials the server, or waits for a client, however long it takes.
func meet(ctx context.Context, o *options) (net.Conn, error) {
	addr := net.JoinHostPort(o.host, strconv.Itoa(o.tcpPort))
	if !o.server() {
		return (&net.Dialer{Timeout: o.timeout}).DialContext(ctx, "tcp", addr)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer l.Close() // one client; others are refused
	return accept(ctx, l)
}

// accept is l.Accept until ctx ends.
func accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	conn, err := l.Accept()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return conn, err
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
