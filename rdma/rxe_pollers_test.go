package rdma

import (
	"bytes"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// TestRXE_Pollers spreads connections over the pollers of an engine, and sends on all at once.
func TestRXE_Pollers(t *testing.T) {
	server, client := newEngines(t, &EngineOptions{Pollers: 3, Memory: 24 << 20})
	var wg sync.WaitGroup
	for i := range 6 {
		a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
		defer a.Close()
		defer b.Close()
		mem, local := buffer(t, client, 64), buffer(t, server, 64)
		want := scramble(mem, uint64(i))
		wg.Go(func() {
			echo(t, a, b)
			s, r := lend(t, a, b, mem, MayRead, 0)
			ok(t, r.Read(timeout(t), local, 0))
			ok(t, r.Return(timeout(t)))
			if _, err := s.Wait(timeout(t)); err != nil || !bytes.Equal(local.Bytes(), want) {
				t.Errorf("connection %d: %v, or what was read differs", i, err)
			}
		})
	}
	wg.Wait()
	for _, e := range []*Engine{server, client} {
		for i, s := range e.e.Shards {
			if n := len(s.Members.Append(nil)); n != 2 || s.Stat.Completions.Load() == 0 {
				t.Errorf("poller %d: %d connections, %d completions; want 2, and some", i, n, s.Stat.Completions.Load())
			}
		}
		least := 3 * e.e.Shards[0].Blocks.PerSlab
		if s := e.Stats(); s.Conns != 6 || s.Blocks < least || s.BlocksPosted < 3*link.ControlBlocks {
			t.Errorf("the sums: %+v", s)
		}
	}
}
