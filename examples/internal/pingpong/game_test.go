package pingpong

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// newGame is a game of one queue pair.
func newGame(t *testing.T, o Options) (*Game, context.Context) {
	t.Helper()
	if o.QPs == 0 {
		o.QPs = 1
	}
	if o.Timeout == 0 {
		o.Timeout = giveUp
	}
	g, ctx := NewGame(t.Context(), &o)
	t.Cleanup(g.Stop)
	return g, ctx
}

func TestGame(t *testing.T) {
	client, _ := newGame(t, Options{Server: "host", Iters: 3, Size: 5000, Check: true})
	server, _ := newGame(t, Options{Iters: 3, Size: 5000, Check: true})
	buf := make([]byte, 5000)
	if server.MyTurn(0) {
		t.Error("the server starts")
	}
	seen := map[string]bool{}
	for i := range 3 {
		if !client.MyTurn(0) || client.MyTurn(0) {
			t.Fatalf("exchange %d: not the client's turn once", i)
		}
		client.Fill(buf)
		if seen[string(buf)] {
			t.Errorf("message %d is as one before", i)
		}
		seen[string(buf)] = true
		client.Sent(0)
		if client.MyTurn(0) {
			t.Error("the client does not wait for the answer")
		}
		if err := server.Received(0, buf); err != nil {
			t.Fatal(err)
		}
		if !server.MyTurn(0) {
			t.Fatal("the server does not answer")
		}
		server.Fill(buf) // leaves it as it is
		if err := client.Received(0, buf); err != nil {
			t.Fatal(err)
		}
		if server.Over() {
			t.Error("over before the answer is out")
		}
		server.Sent(0)
	}
	if !client.Over() || !server.Over() || client.MyTurn(0) || server.MyTurn(0) {
		t.Error("it is not over after 3 exchanges")
	}
	var out bytes.Buffer
	client.Report(&out)
	if s := out.String(); !strings.HasPrefix(s, "30000 bytes in ") || !strings.Contains(s, "\n3 iters in ") ||
		!strings.Contains(s, "3 messages received, every byte") {
		t.Error(s)
	}
}

func TestGame_ManyQPs(t *testing.T) {
	g, _ := newGame(t, Options{Program: Program{QPs: 16}, Server: "host", QPs: 3, Iters: 4, Size: 1})
	for q := range 3 {
		if !g.MyTurn(q) {
			t.Errorf("queue pair %d does not start", q)
		}
	}
	g.Sent(1)
	g.Received(1, []byte{0})
	if g.MyTurn(0) || !g.MyTurn(1) || g.MyTurn(2) {
		t.Error("turns are mixed up between queue pairs")
	}
	g.Sent(1)
	g.Received(1, []byte{0})
	if g.MyTurn(1) {
		t.Error("more than 4 messages in all")
	}
}

func TestGame_WrongMessages(t *testing.T) {
	const size = 9000
	ours := func(n int) []byte {
		b := make([]byte, size)
		fill(b, n, true)
		return b
	}
	stock := func(f byte) []byte {
		b := bytes.Repeat([]byte{f}, size)
		b[0], b[4096], b[8192] = 0, 0, 0
		return b
	}
	change := func(b []byte, i int) []byte { b[i] ^= 0x10; return b }
	for _, tt := range []struct {
		name string
		b    []byte
		want int // offset of the error, -1 for none, -2 for the length
	}{
		{"ours", ours(1), -1},
		{"of stock rc", stock(0x7b), -1},
		{"of stock srq", stock(0), -1},
		{"the one before", ours(0), 1},
		{"first byte", change(ours(1), 0), 0},
		{"page start", change(ours(1), 4096), 4096},
		{"last byte", change(ours(1), size-1), size - 1},
		{"stock page start", change(stock(0x7b), 8192), 1},
		{"stock within", change(stock(0x7b), 5000), 1},
		{"no pattern", bytes.Repeat([]byte{0x7b}, size), 0},
		{"short", ours(1)[:size-1], -2},
		{"empty", nil, -2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, _ := newGame(t, Options{Iters: 2, Size: size, Check: true})
			if err := g.Received(0, ours(0)); err != nil {
				t.Fatal(err)
			}
			err := g.Received(0, tt.b)
			var p *PayloadError
			var l *LengthError
			switch {
			case tt.want == -1 && err != nil, tt.want == -2 && !errors.As(err, &l), tt.want >= 0 &&
				(!errors.As(err, &p) || p.Offset != tt.want || p.Message != 1):
				t.Errorf("got %v", err)
			}
		})
	}
}

// Without -c contents do not matter, lengths do.
func TestGame_Unchecked(t *testing.T) {
	g, _ := newGame(t, Options{Iters: 2, Size: 4})
	if err := g.Received(0, []byte("what")); err != nil {
		t.Error(err)
	}
	var l *LengthError
	if err := g.Received(0, []byte("wha")); !errors.As(err, &l) || *l != (LengthError{Message: 1, Got: 3, Want: 4}) {
		t.Error(err)
	}
}

func TestGame_Stalls(t *testing.T) {
	g, ctx := newGame(t, Options{Server: "host", Iters: 9, Size: 1, Timeout: 50 * time.Millisecond})
	g.MyTurn(0)
	g.Sent(0)
	select {
	case <-ctx.Done():
	case <-time.After(giveUp):
		t.Fatal("the game does not end")
	}
	var s *StallError
	if err := g.Why(ctx, ctx.Err()); !errors.As(err, &s) || !s.Timeout() || s.Sent != 1 ||
		s.Received != 0 || s.Iters != 9 {
		t.Errorf("got %v", err)
	}
}

func TestGame_Why(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	g, ctx := NewGame(parent, &Options{QPs: 1, Iters: 2, Timeout: giveUp})
	defer g.Stop()
	other := errors.New("other")
	if err := g.Why(ctx, other); err != other {
		t.Errorf("got %v", err)
	}
	cancel()
	if err := g.Why(ctx, ctx.Err()); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(),
		"interrupted after 0 messages sent and 0 received of 2") {
		t.Errorf("got %v", err)
	}
	if err := g.Why(ctx, other); err != other {
		t.Errorf("got %v", err)
	}
}
