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
