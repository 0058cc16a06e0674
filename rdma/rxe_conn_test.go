package rdma

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

func TestRXE_Messages(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	ctx := timeout(t)
	sizes := []int{0, 1, 28, 29, 1000, 32 << 10, 32<<10 + 1, 100_000, 1 << 20, 5 << 20}
	rnd := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 5<<20)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	done := make(chan error, 1)
	go func() {
		for i, n := range sizes {
			if err := a.SendImm(ctx, uint32(i), data[:n]); err != nil {
				done <- err
				return
			}
		}
		done <- a.CloseSend()
	}()
	for i, n := range sizes {
		m, err := b.Recv(ctx)
		ok(t, err)
		var joined []byte
		for _, p := range m.Blocks() {
			joined = append(joined, p...)
		}
		if imm, has := m.Imm(); !has || imm != uint32(i) {
			t.Errorf("message %d: imm %d, %v", i, imm, has)
		}
		if !bytes.Equal(m.Bytes(), data[:n]) || !bytes.Equal(joined, data[:n]) {
			t.Errorf("message %d: %d bytes that differ from the %d sent", i, m.Len(), n)
		}
		m.Release()
	}
	ok(t, <-done)
	if _, err := b.Recv(ctx); err != io.EOF {
		t.Errorf("after CloseSend: %v, want io.EOF", err)
	}
	ok(t, b.Send(ctx, data[:50000]))
	ok(t, b.Flush(ctx))
	m, err := a.Recv(ctx)
	ok(t, err)
	m.Release()
}
