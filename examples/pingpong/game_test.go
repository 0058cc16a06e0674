package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestGame(t *testing.T) {
	start := func(o options) *game {
		g, _ := newGame(t.Context(), &o)
		t.Cleanup(g.stop)
		return g
	}
	o := options{kind: "rc", host: "host", qps: 1, iters: 3, size: 5000, check: true, timeout: time.Hour}
	client := start(o)
	o.host = ""
	server := start(o)
	buf := make([]byte, o.size)
	if server.myTurn(0) {
		t.Error("the server starts")
	}
	seen := map[string]bool{}
	for i := range 3 {
		if !client.myTurn(0) || client.myTurn(0) {
			t.Fatalf("exchange %d: not the client's turn once", i)
		}
		client.fill(buf)
		if seen[string(buf)] {
			t.Errorf("message %d is as one before", i)
		}
		seen[string(buf)] = true
		client.wasSent(0)
		if err := server.wasReceived(0, buf); err != nil {
			t.Fatal(err)
		}
		if !server.myTurn(0) || client.myTurn(0) {
			t.Fatal("not the server's turn")
		}
		server.fill(buf) // leaves it as it is
		if err := client.wasReceived(0, buf); err != nil {
			t.Fatal(err)
		}
		if server.over() {
			t.Error("over before the reply is sent")
		}
		server.wasSent(0)
	}
	if !client.over() || !server.over() || client.myTurn(0) || server.myTurn(0) {
		t.Error("it is not over after 3 exchanges")
	}

	many := start(options{kind: "srq", host: "host", qps: 3, iters: 4, size: 1, timeout: time.Hour})
	for q := range 3 {
		if !many.myTurn(q) {
			t.Errorf("queue pair %d does not start", q)
		}
	}
	many.wasSent(1)
	if err := many.wasReceived(1, []byte{0}); err != nil {
		t.Error(err)
	}
	if many.myTurn(0) || !many.myTurn(1) || many.myTurn(2) {
		t.Error("turns are mixed up between queue pairs")
	}
}

func TestGame_Messages(t *testing.T) {
	const size = 9000
	stock := func(f byte) []byte {
		b := bytes.Repeat([]byte{f}, size)
		b[0], b[4096], b[8192] = 0, 0, 0
		return b
	}
	change := func(b []byte, i int) []byte { b[i] ^= 0x10; return b }
	for _, tt := range []struct {
		name string
		b    []byte
		want string // in the error
	}{
		{"ours", pattern(size, 1), ""},
		{"of stock rc", stock(0x7b), ""},
		{"of stock srq", stock(0), ""},
		{"the one before", pattern(size, 0), "message 1: byte 1 is"},
		{"first byte", change(pattern(size, 1), 0), "byte 0 is 0x10, want 0x00"},
		{"page start", change(pattern(size, 1), 4096), "byte 4096 is"},
		{"last byte", change(pattern(size, 1), size-1), "byte 8999 is"},
		{"stock page start", change(stock(0x7b), 8192), "byte 1 is"},
		{"stock within", change(stock(0x7b), 5000), "byte 1 is"},
		{"no pattern", bytes.Repeat([]byte{0x7b}, size), "byte 0 is 0x7b, want 0x00"},
		{"short", pattern(size, 1)[:size-1], "has 8999 bytes, want 9000"},
		{"empty", nil, "has 0 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, _ := newGame(t.Context(), &options{kind: "rc", qps: 1, iters: 2, size: size, check: true,
				timeout: time.Hour})
			defer g.stop()
			if err := g.wasReceived(0, pattern(size, 0)); err != nil {
				t.Fatal(err)
			}
			err := g.wasReceived(0, tt.b)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestGame_Stalls(t *testing.T) {
	g, ctx := newGame(t.Context(), &options{kind: "rc", host: "host", qps: 1, iters: 9, size: 1,
		timeout: 50 * time.Millisecond})
	g.myTurn(0)
	g.wasSent(0)
	<-ctx.Done()
	if err := g.why(ctx, ctx.Err()); !strings.Contains(err.Error(),
		"no completion for 50ms, after 1 messages sent and 0 received of 9: the peer is gone") {
		t.Error(err)
	}
}
