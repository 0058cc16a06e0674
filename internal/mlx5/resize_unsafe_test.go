package mlx5_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// resize is what the device and the library do to move a CQ to another ring. meanwhile comes between the two.
func (d *device) resize(cq *mlx5.CQ, entries int, meanwhile func()) bool {
	ring := alloc(d.t, entries*d.cqeSize)
	mlx5.InitRing(ptr(ring), uint32(entries), uint32(d.cqeSize))
	d.put(cqe{op: 5})
	d.cq = ring
	meanwhile()
	cq.Hide()
	defer cq.Show()
	return cq.Move(ptr(ring), uint32(entries))
}

// Completions move along to rings of all sizes, at any place of both rings, while the device goes on in the new one.
func TestMove(t *testing.T) {
	for _, cqeSize := range []int{64, 128} {
		t.Run(fmt.Sprint(cqeSize), func(t *testing.T) {
			d, q, cq := newPair(t, 64, cqeSize)
			r := rand.New(rand.NewPCG(1, uint64(cqeSize)))
			var next, polled uint64
			write := func(most int) {
				for range min(r.IntN(most+1), 16-int(next-polled)) {
					if !q.SQ.Send(next, wrSend, signaled, 0, local) {
						t.Fatal("full")
					}
					q.SQ.Ring()
					d.put(cqe{sendOp: 0x0a, qpn: qpn, counter: uint16(next), ts: next})
					next++
				}
			}
			drain := func(n int) { // poll checks that there are no more
				if n > 0 {
					for i, wc := range poll(t, cq, n) {
						if wc.ID != polled+uint64(i) {
							t.Fatalf("completion %d is %+v", polled+uint64(i), wc)
						}
					}
					polled += uint64(n)
				}
			}
			for round := range 500 {
				write(16)
				if r.IntN(4) == 0 {
					drain(int(next - polled))
				}
				if got := cq.Unpolled(); got != uint32(next-polled) {
					t.Fatalf("round %d: %d unpolled, want %d", round, got, next-polled)
				}
				entries := 32 << r.IntN(4)
				if !d.resize(cq, entries, func() { write(4) }) {
					t.Fatalf("round %d: not moved", round)
				}
				if cq.Entries() != uint32(entries) || cq.Size() != uint32(cqeSize) ||
					d.consumed() != d.pi-uint32(next-polled) {
					t.Fatalf("round %d: %d entries of %d; consumed %d of %d with %d left", round, cq.Entries(),
						cq.Size(), d.consumed(), d.pi, next-polled)
				}
				write(8)
				if r.IntN(2) == 0 {
					drain(int(next - polled))
				}
			}
			drain(int(next - polled))
			if !cq.Empty() {
				t.Error("not empty")
			}
		})
	}
}

// A device that does not end the old ring, or left more in it than the new one holds: no memory is overrun.
func TestMoveRefused(t *testing.T) {
	d, q, cq := newPair(t, 64, 64)
	for i := range 12 {
		q.SQ.Send(uint64(i), wrSend, signaled, 0, local)
		q.SQ.Ring()
		d.sent(qpn, 0x0a, uint16(i))
	}
	if d.resize(cq, 8, func() {}) {
		t.Error("12 completions moved to a ring of 8")
	}
	d, _, cq = newPair(t, 64, 64)
	ring := alloc(t, 128*64)
	mlx5.InitRing(ptr(ring), 128, 64)
	if cq.Move(ptr(ring), 128) {
		t.Error("moved from a ring that the device did not end")
	}
	if cq.Entries() != 128 || d.consumed() != 1 {
		t.Errorf("%d entries, consumed %d", cq.Entries(), d.consumed())
	}
}

// PollTags finds VLAN and flow tag of each receive, although an entry between gives no completion, and the device gets
// the entries back after that.
func TestPollTags(t *testing.T) {
	for _, cqeSize := range []int{64, 128} {
		d := newDevice(t, sizeOf(16, cqeSize))
		q := mlx5.NewQP(qpn, true, nil, nil, d.newSRQ(32, 1, new(spin.Lock)))
		d.tab = new(mlx5.Table)
		d.tab.Add(q)
		cq := d.newCQ(d.tab)
		wrs := recvs(10, 4)
		wrs[3].SGEs[0].Addr = addr(alloc(t, int(wrs[3].SGEs[0].Length)))
		if q.SRQ.Post(wrs) != 4 {
			t.Fatal("full")
		}
		vlan := func(v byte) { // of the entry that was written last
			e := d.cq[int(d.pi-1)%16*cqeSize:][:cqeSize]
			e[len(e)-64+30], e[len(e)-64+31] = v, v+1
		}
		d.got(qpn, 0, 5)
		vlan(0x21)
		d.put(cqe{op: 14, qpn: qpn, counter: 1, syndrome: 0x22, vendor: 0x93}) // is posted again
		d.got(qpn, 2, 6)
		vlan(0x41)
		d.put(cqe{op: 2, qpn: qpn, counter: 3, bytes: 8, format: 1, data: []byte{31: 0xff, 30: 0xee}})
		wcs := make([]mlx5.WC, 8)
		n, err := cq.PollTags(wcs, true)
		if n != 3 || err != nil || d.consumed() != 4 {
			t.Fatalf("%d completions, %v, %d consumed", n, err, d.consumed())
		}
		for i, want := range []mlx5.WC{{ID: 10, CVLAN: 0x2122, ByteLen: 5}, {ID: 12, CVLAN: 0x4142, ByteLen: 6},
			{ID: 13, ByteLen: 8}} {
			if wc := wcs[i]; wc.ID != want.ID || wc.CVLAN != want.CVLAN || wc.FlowTag != qpn ||
				wc.ByteLen != want.ByteLen {
				t.Errorf("%d-byte entry %d is %+v, want %+v", cqeSize, i, wc, want)
			}
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = cq.PollTags(wcs, true) }); n != 0 {
			t.Errorf("allocates %v times", n)
		}
	}
}
