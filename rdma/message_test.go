package rdma

import (
	"context"
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestMessageReleased: every method of a message panics after Release, also when another message uses the
// memory.
func TestMessageReleased(t *testing.T) {
	l := fakeLinkOf(wire.Hello{Block: 64}, wire.Messages, nil)
	for i := range 100 {
		m := fakeMessage(l, []byte{byte(i)}, 0, false)
		m.Release()
		other := fakeMessage(l, []byte{1, 2}, 0, false) // usually the same memory
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
	a, b := inMemory(t, memoryEngines(t, both(nil)), wire.Messages, [2]*Options{{}, {}})
	c, peer := &Conn{a}, &Conn{b}
	defer peer.Close()
	defer c.Close()
	batch, text, there := peer.Batch(), []byte("any text"), 0
	receive := func() { // has a message be there, if none is; many share a frame
		if there--; there >= 0 {
			return
		}
		for there = range 64 {
			batch.Send(text)
		}
		_, err := batch.Post(t.Context())
		ok(t, errors.Join(err, peer.Flush(t.Context())))
		a.Shard.Progress.CatchUp(nil)
	}
	for name, recv := range map[string]func(){
		"Recv": func() {
			m, err := c.Recv(context.Background())
			if err != nil || m.Len() != 8 || len(m.Bytes()) != 8 {
				t.Fatal("another message: ", err)
			}
			m.Release()
		},
		"TryRecv": func() {
			m, ok, err := c.TryRecv()
			if err != nil || !ok || m.Len() != 8 {
				t.Fatal("another message: ", ok, err)
			}
			m.Release()
		},
	} {
		if n := testing.AllocsPerRun(100, func() {
			receive()
			recv()
		}); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}
