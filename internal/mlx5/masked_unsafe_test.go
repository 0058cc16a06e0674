package mlx5_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/work"
)

// Previous values that the device returns big-endian are swapped once, by the poll that returns the completion, also
// where the WQE wraps around the end of the ring. Of other sizes, of errors and in null MRs nothing is touched.
func TestMaskedReply(t *testing.T) {
	const null = 7 // key
	mem := alloc(t, 4096)
	for _, c := range []struct {
		op, size, bigEndian, key uint32
		failed, swaps            bool
	}{
		{work.MaskedCompareSwap, 8, 16 | 32, 3, false, false},
		{work.MaskedCompareSwap, 8, 8 | 16 | 32, 3, false, true},
		{work.MaskedFetchAdd, 16, 16 | 32, 3, false, true},
		{work.MaskedCompareSwap, 16, 16 | 32, 3, false, true},
		{work.MaskedFetchAdd, 32, 16 | 32, 3, false, true},
		{work.MaskedCompareSwap, 32, 16 | 32, 3, false, true},
		{work.MaskedFetchAdd, 32, 0, 3, false, false},
		{work.MaskedFetchAdd, 16, 16 | 32, 3, true, false},
		{work.MaskedFetchAdd, 16, 16 | 32, null, false, false},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			d := newDevice(t, size{blocks: 8, cqes: 4, cqeSize: 64})
			q := mlx5.NewQP(qpn, true, d.sqConfig(), nil, nil)
			tab := new(mlx5.Table)
			tab.BigEndian(c.bigEndian)
			tab.Null(null)
			tab.Add(q)
			cq := d.newCQ(tab)
			wr := mlx5.SendWR{ID: 1, Opcode: c.op, Flags: signaled, Remote: *remote,
				SGEs: []mlx5.SGE{{Addr: addr(mem[8:]), Length: c.size, LKey: c.key}}}
			wr.Masked = &work.MaskedAtomic{Size: c.size}
			e := cqe{sendOp: 0x14, qpn: qpn, bytes: c.size}
			if c.op == work.MaskedFetchAdd {
				e.sendOp = 0x15
			}
			status := uint32(0)
			if c.failed {
				e.op, e.syndrome, status = 13, 0x05, 5
			}
			reply := counted(int(c.size))
			want := slices.Clone(reply)
			if c.swaps {
				for w := range slices.Chunk(want, 8) {
					slices.Reverse(w)
				}
			}
			check := func(when string, want []byte) {
				t.Helper()
				all := fill(make([]byte, len(mem)))
				copy(all[8:], want)
				if !bytes.Equal(mem, all) {
					t.Fatalf("%s: % x, want % x", when, mem[8:48], want)
				}
			}
			for lap := range 20 {
				fill(mem)
				e.counter = d.sendRecord()
				if !q.SQ.Add(&wr, 0, 0) {
					t.Fatal("full")
				}
				q.SQ.Ring()
				if lap%3 == 0 { // unsignaled ones are behind it, so that WQEs begin everywhere
					q.SQ.Send(2, wrSend, 0, 0, local)
					q.SQ.Ring()
				}
				copy(mem[8:], reply)
				d.put(e)
				check("before the poll", reply)
				if wc := poll(t, cq, 1)[0]; wc.ID != 1 || wc.Status != status {
					t.Fatalf("%+v", wc)
				}
				check("after it", want)
				poll(t, cq, 0)
				check("after the next", want)
			}
			wcs := make([]mlx5.WC, 2)
			if n := testing.AllocsPerRun(10, func() {
				e.counter = d.sendRecord()
				q.SQ.Add(&wr, 0, 0)
				q.SQ.Ring()
				d.put(e)
				if n, err := cq.Poll(wcs); n != 1 || err != nil {
					t.Error(n, err)
				}
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}
