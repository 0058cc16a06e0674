package mlx5

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/spin"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// pollKinds are the mixes of completions that polling is measured with.
var pollKinds = []struct {
	name     string
	qps      int // that complete in turn
	sends    bool
	receives bool // with sends: in turn
	srq      bool
	format   uint8 // scatter32: the payload is in the entry
}{
	{name: "send", qps: 1, sends: true},
	{name: "send_qps2", qps: 2, sends: true},
	{name: "recv", qps: 1, receives: true},
	{name: "recv_qps2", qps: 2, receives: true},
	{name: "recv_in_cqe", qps: 1, receives: true, format: scatter32},
	{name: "srq", qps: 1, receives: true, srq: true},
	{name: "srq_qps2", qps: 2, receives: true, srq: true},
	{name: "mixed", qps: 1, sends: true, receives: true},
	{name: "mixed_qps2", qps: 2, sends: true, receives: true},
}

const (
	filledEntries = 1024
	filledBytes   = 32
)

// filled is a CQ that a device fills completely with completions of one kind.
type filled struct {
	cq    *CQ
	qps   []*QP
	srq   *SRQ
	kind  int
	mem   []uint64
	ring  unsafe.Pointer
	data  []byte
	sends []uint16 // blocks posted, by QP
	recvs []uint16
	pi    uint32
	wrs   [1]RecvWR
	sges  [1]SGE
}

func newFilled(kind int) *filled {
	const stride = 32
	k := &pollKinds[kind]
	rqs := uintptr(filledEntries * stride)
	f := &filled{kind: kind, mem: make([]uint64, (filledEntries*64+3*int(rqs)+1024)/8), data: make([]byte, 64)}
	f.ring = unsafe.Pointer(&f.mem[8-uintptr(unsafe.Pointer(&f.mem[0]))>>3&7])
	recvs := unsafe.Add(f.ring, filledEntries*64)
	db := unsafe.Add(recvs, 3*rqs)
	tab := new(Table)
	f.sges[0] = SGE{Addr: uint64(uintptr(unsafe.Pointer(&f.data[0]))), Length: filledBytes, LKey: 1}
	f.wrs[0] = RecvWR{ID: 7, SGEs: f.sges[:]}
	if k.srq {
		buf := unsafe.Add(recvs, 2*rqs)
		for i := range filledEntries {
			*(*uint16)(unsafe.Add(buf, i*stride+2)) = uint16((i+1)<<8 | (i+1)>>8)
		}
		f.srq = NewSRQ(&SRQConfig{
			Buf: buf, Stride: stride, MaxSGE: 1, Tail: filledEntries - 1, WQEs: filledEntries,
			DBRec: unsafe.Add(db, 16),
		}, new(spin.Lock))
	}
	for i := range k.qps {
		var rq *RQConfig
		if !k.srq {
			buf := unsafe.Add(recvs, uintptr(i)*rqs)
			rq = &RQConfig{Buf: buf, WQEs: filledEntries, Stride: 16, DBRec: db, MaxSGE: 1}
		}
		sq := &SQConfig{Buf: f.ring, Blocks: filledEntries, DBRec: db, Reg: db, MaxWR: filledEntries}
		q := NewQP(uint32(0x100+i), true, sq, rq, f.srq)
		tab.Add(q)
		f.qps = append(f.qps, q)
	}
	f.sends, f.recvs = make([]uint16, k.qps), make([]uint16, k.qps)
	f.cq = NewCQ(&CQConfig{
		Num: 1, Buf: f.ring, Entries: filledEntries, Size: 64,
		DBRec: unsafe.Add(db, 64), UAR: unsafe.Add(db, 128), QPs: tab,
	})
	for i := range filledEntries {
		*(*uint8)(unsafe.Add(f.ring, i*64+63)) = cqeInvalid << 4
	}
	return f
}

// fill posts and completes as many work requests as the CQ holds, less two: an SRQ takes one less than it has WQEs.
func (f *filled) fill(t testing.TB) int {
	k := &pollKinds[f.kind]
	n := filledEntries - filledEntries%16
	if k.srq {
		n -= 16
	}
	for i := range n {
		at := i % k.qps
		q := f.qps[at]
		p := unsafe.Add(f.ring, uintptr(f.pi%filledEntries)*64)
		own := uint64(f.pi / filledEntries & 1)
		f.pi++
		num := uint64(q.Num) << 32
		if k.sends && (!k.receives || i/k.qps%2 == 0) {
			q.SQ.commit(7, 1)
			put64(p, offTail, opWrite<<56|num|uint64(f.sends[at])<<16|own)
			f.sends[at]++
			continue
		}
		counter := f.recvs[at]
		f.recvs[at]++
		posted := 0
		if k.srq {
			counter = uint16(f.srq.head)
			posted = f.srq.Post(f.wrs[:])
		} else {
			posted = q.RQ.Post(f.wrs[:])
		}
		if posted != 1 {
			t.Fatal("the receive queue is full")
		}
		put64(p, offByteCnt-4, filledBytes)
		put64(p, offTail, num|uint64(counter)<<16|cqeRespSend<<4|uint64(k.format)|own)
	}
	return n
}

// pass polls a full CQ and returns ns for each completion. The entries were just written, so they are in the cache.
// With look it polls with PollTags.
func (f *filled) pass(t testing.TB, wcs []WC, lock *spin.Lock, look bool) float64 {
	n := f.fill(t)
	start := time.Now()
	for range n / len(wcs) {
		lock.Lock()
		var (
			got int
			err error
		)
		if look {
			got, err = f.cq.PollTags(wcs, false)
		} else {
			got, err = f.cq.Poll(wcs)
		}
		lock.Unlock()
		if got != len(wcs) || err != nil {
			t.Fatal(got, err)
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

// BenchmarkPollTags polls receives once as other CQs do, and once with the second look that a CQ with a QP for
// datagrams takes on Ethernet, in turn. Each figure is ns/completion, the least of all passes.
func BenchmarkPollTags(b *testing.B) {
	for kind, k := range pollKinds {
		if !k.receives {
			continue
		}
		for _, batch := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", k.name, batch), func(b *testing.B) {
				f := newFilled(kind)
				f.cq.vlans = true
				wcs := make([]WC, batch)
				one, two := math.Inf(1), math.Inf(1)
				for b.Loop() {
					one = min(one, f.pass(b, wcs, &spin.Lock{Off: true}, false))
					two = min(two, f.pass(b, wcs, &spin.Lock{Off: true}, true))
				}
				b.ReportMetric(one, "ns-Poll")
				b.ReportMetric(two, "ns-PollTags")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkPoll polls completions of each kind, one and 16 at a time. ns/completion is the least of all passes over the
// ring.
func BenchmarkPoll(b *testing.B) {
	for kind, k := range pollKinds {
		for _, batch := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", k.name, batch), func(b *testing.B) {
				f := newFilled(kind)
				wcs := make([]WC, batch)
				least := math.Inf(1)
				for b.Loop() {
					least = min(least, f.pass(b, wcs, &spin.Lock{Off: true}, false))
				}
				b.ReportMetric(least, "ns/completion")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// TestPollKinds checks that each mix is what its name says, and that polling it does not allocate. Of three times one
// has to be without: the runtime, and goroutines of tests before, allocate as well.
func TestPollKinds(t *testing.T) {
	for kind, k := range pollKinds {
		least := pollKind(t, kind)
		for try := 1; try < 3 && least > 0; try++ {
			least = min(least, pollKind(t, kind))
		}
		if least > 0 {
			t.Errorf("%s: %v allocations", k.name, least)
		}
	}
}

// pollKind polls three laps of a new ring, and returns how many allocations there were.
func pollKind(t *testing.T, kind int) (allocs float64) {
	k, f := pollKinds[kind], newFilled(kind)
	var wcs [16]WC
	for lap := range 3 {
		for at := range f.fill(t) / len(wcs) {
			var n int
			var err error
			allocs += testing.AllocsPerRun(1, func() {
				if n == 0 { // the run before the one that counts takes nothing
					n = -1
					return
				}
				n, err = f.cq.Poll(wcs[:])
			})
			if n != len(wcs) || err != nil {
				t.Fatalf("%s: lap %d, poll %d: %d completions, %v", k.name, lap, at, n, err)
			}
			for i, wc := range wcs {
				want := WC{ID: 7, QPN: uint32(0x100 + i%k.qps), Opcode: wcWrite}
				if k.receives && (!k.sends || i/k.qps%2 == 1) {
					want.Opcode, want.ByteLen = wcRecv, filledBytes
				}
				if wc != want {
					t.Fatalf("%s: completion %d is %+v, want %+v", k.name, i, wc, want)
				}
			}
		}
	}
	return allocs
}

// postRecvs posts as many receives as fit, len(wrs) at a time, completes them, and returns the ns that posting took for
// each.
func (f *filled) postRecvs(t testing.TB, wrs []RecvWR, lock *spin.Lock) float64 {
	q := &f.qps[0].RQ
	post := q.Post
	if f.srq != nil {
		post = f.srq.Post
	}
	n := (filledEntries - 16) / len(wrs)
	start := time.Now()
	for range n {
		lock.Lock()
		posted := post(wrs)
		lock.Unlock()
		if posted != len(wrs) {
			t.Fatal("full")
		}
	}
	took := time.Since(start)
	if f.srq == nil {
		q.ci += uint32(n * len(wrs))
		q.seen = q.ci
		q.done.Store(q.ci)
	} else {
		for i := range uint32(filledEntries) {
			f.srq.take(i)
		}
	}
	return float64(took.Nanoseconds()) / float64(n*len(wrs))
}

// pollEmpty polls an empty CQ this many times.
func (f *filled) pollEmpty(t testing.TB, times int) float64 {
	start := time.Now()
	for range times {
		if !f.cq.Empty() {
			t.Fatal("not empty")
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(times)
}

// TestFiguresKinds prints the cost of a completion of each kind and of posting a receive, with a lock and without.
func TestFiguresKinds(t *testing.T) {
	if os.Getenv("PUREVERBS_FIGURES") == "" {
		t.Skip("measures: make bench")
	}
	const rounds = 60
	var names []string
	ns := map[string][]float64{}
	measured := func(name string, v float64) {
		if ns[name] == nil {
			names = append(names, name)
		}
		ns[name] = append(ns[name], v)
	}
	var polled, posted []*filled
	for kind := range pollKinds {
		polled, posted = append(polled, newFilled(kind)), append(posted, newFilled(kind))
	}
	for range rounds {
		for _, batch := range []int{1, 16} {
			for _, off := range []bool{false, true} {
				lock, suffix := &spin.Lock{Off: off}, map[bool]string{true: "_unlocked"}[off]
				for kind, k := range pollKinds {
					name := fmt.Sprintf("%d_%s%s", batch, k.name, suffix)
					measured("poll"+name, polled[kind].pass(t, make([]WC, batch), lock, false))
					if k.name == "recv" || k.name == "srq" {
						wrs := slices.Repeat(posted[kind].wrs[:], batch)
						measured("post"+name, posted[kind].postRecvs(t, wrs, lock))
					}
				}
			}
		}
		measured("pollempty", newFilled(0).pollEmpty(t, 1000))
	}
	fmt.Println("# processor:", testutil.Processor())
	for _, name := range names {
		slices.Sort(ns[name])
		fmt.Printf("figure mlx5_%s_ns %.2f ns\n", name, ns[name][rounds/4]) // others run beside: the lower quartile
	}
}
