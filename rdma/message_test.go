package rdma

import (
	"context"
	"testing"
)

// TestMessageReleased: every method of a message panics after Release, also when another message uses the
// memory.
func TestMessageReleased(t *testing.T) {
	l := sender(64)
	for i := range 100 {
		in := newMessage(l)
		in.n, in.buf = 1, []byte{byte(i)}
		m := in.handle()
		m.Release()
		next := newMessage(l) // usually the same memory
		other := next.handle()
		next.n, next.buf = 2, []byte{1, 2}
		for name, use := range map[string]func(){
			"Release": m.Release,
			"Bytes":   func() { m.Bytes() },
			"Blocks":  func() { m.Blocks() },
			"Len":     func() { m.Len() },
			"Imm":     func() { m.Imm() },
		} {
			panics(t, name, use)
		}
		if p := other.Bytes(); len(p) != 2 || p[1] != 2 {
			t.Fatalf("another message became %v", p)
		}
		other.Release()
	}
}

// TestRecvAllocs: a message whose pointer stays in the caller's function costs no allocation.
func TestRecvAllocs(t *testing.T) {
	l := sender(1024)
	l.q.Stage(staged(l, make([]byte, 8), 0, 0))
	for l.wr.pack(&outgoing{p: make([]byte, 8), n: 8}) {
	}
	packed, _ := l.q.DropStaged()
	f := arrived(&packed)
	l.maxMessage = defaultMaxMessage
	l.rd.turn.Init(1)
	c := &Conn{l}
	for name, recv := range map[string]func(){
		"Recv": func() {
			m, err := c.Recv(context.Background())
			if err != nil || m.Len() != 8 || len(m.Bytes()) != 8 {
				t.Fatal("another message: ", err)
			}
			m.get().recycle()
		},
		"TryRecv": func() {
			m, ok, err := c.TryRecv()
			if err != nil || !ok || m.Len() != 8 {
				t.Fatal("another message: ", ok, err)
			}
			m.get().recycle()
		},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if l.rd.current.b == nil {
				l.rd.current = f
			}
			recv()
		}); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}
