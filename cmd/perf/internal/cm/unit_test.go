package cm

import (
	"bytes"
	"testing"
)

func TestPrivateData(t *testing.T) {
	want := token{1, 2, 3, 4, 5, 6, 7, 8}
	b := data(queue, want, 70000)
	if !bytes.Equal(b, []byte("pverbs1\x00q\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x11\x70")) || len(b) != dataLen ||
		len(b) > 56 {
		t.Errorf("private data %x", b)
	}
	// The peer sees it filled up.
	kind, tok, n, ours := parse(append(b, make([]byte, 56-len(b))...))
	if kind != queue || tok != want || n != 70000 || !ours {
		t.Errorf("parse = %c %v %d %v", kind, tok, n, ours)
	}
	for _, b := range [][]byte{nil, make([]byte, 56), []byte(magic), []byte("GET / HTTP/1.1, and so on, and so on")} {
		if _, _, _, ours := parse(b); ours {
			t.Errorf("%q passes for ours", b)
		}
		if stock := len(b) == 0 || b[0] == 0; empty(b) != stock {
			t.Errorf("%q passes for perftest's: %v, want %v", b, empty(b), stock)
		}
	}
}

// TestAsks: a stock client's request for a queue pair has no sign, and may come from any address; one of ours has its
// client's token and its number.
func TestAsks(t *testing.T) {
	own := token{1, 2, 3}
	for name, tc := range map[string]struct {
		ours    bool
		private []byte
		want    bool
	}{
		"stock":                    {false, nil, true},
		"stock, filled up":         {false, make([]byte, 56), true},
		"stock, of another kind":   {false, []byte("GET /"), false},
		"stock, of ours":           {false, data(queue, own, 3), false},
		"ours":                     {true, data(queue, own, 3), true},
		"ours, another queue pair": {true, data(queue, own, 4), false},
		"ours, another client":     {true, data(queue, token{9}, 3), false},
		"ours, another exchange":   {true, data(exchange, own, 3), false},
		"ours, of stock":           {true, nil, false},
	} {
		p := &Peer{ours: tc.ours, token: own}
		if got := p.asks(tc.private, 3); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
