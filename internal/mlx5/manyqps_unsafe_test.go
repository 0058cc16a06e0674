package mlx5

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"
)

// BenchmarkPollQPs measures the cost of a completion by the number of QPs on the CQ, and the size of their table.
// Completions come in bursts of one QP, and the QPs in random order. QPNs are consecutive, as devices assign them;
// sparse is the worst case, with one QPN in each page of the table.
func BenchmarkPollQPs(b *testing.B) {
	for _, c := range []struct {
		qps    int
		step   uint32
		suffix string
	}{{1, 1, ""}, {64, 1, ""}, {1024, 1, ""}, {16384, 1, ""}, {100000, 1, ""}, {1024, 4096, "/sparse"}} {
		for _, burst := range []int{1, 8} {
			b.Run(fmt.Sprintf("qps=%d%s/burst=%d", c.qps, c.suffix, burst), func(b *testing.B) {
				p := newPolling(b, c.qps, c.step, burst)
				b.ResetTimer()
				for range b.N {
					p.poll(b)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pollBatch, "ns/completion")
				b.ReportMetric(p.table/1024, "table-KiB")
				b.ReportMetric(p.table/float64(c.qps), "table-B/QP")
			})
		}
	}
}

// BenchmarkFind measures the lookup alone.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 64, 1024, 16384} {
		b.Run(fmt.Sprintf("qps=%d", n), func(b *testing.B) {
			p := newPolling(b, n, 1, 1)
			b.ResetTimer()
			for i := range b.N {
				if p.cq.qps.Find(p.qps[p.order[i%len(p.order)]].Num) == nil {
					b.Fatal("not there")
				}
			}
		})
	}
}

const (
	pollBatch   = 16
	pollEntries = 1024
)

// polling is a CQ of many QPs with posted work requests, and a device that completes them in some order.
type polling struct {
	mem   []uint64
	cq    *CQ
	qps   []*QP
	order []int // of the QPs that complete
	at    []uint16
	next  int // in order
	left  int // completions in the CQ
	pi    uint32
	buf   unsafe.Pointer
	wcs   [pollBatch]WC
	table float64
}

func newPolling(b *testing.B, n int, step uint32, burst int) *polling {
	perQP := max(burst, pollEntries/n) // each QP's ring, and what it posts
	p := &polling{mem: make([]uint64, pollEntries*8+n*perQP*8+1024), qps: make([]*QP, n)}
	p.buf = unsafe.Pointer(&p.mem[8-uintptr(unsafe.Pointer(&p.mem[0]))>>3&7])
	rings := unsafe.Add(p.buf, pollEntries*64)
	db := unsafe.Add(rings, n*perQP*64)
	for i := range p.qps {
		p.qps[i] = NewQP(0x40+uint32(i)*step, true, &SQConfig{
			Buf: unsafe.Add(rings, i*perQP*64), Blocks: uint32(perQP), DBRec: db, Reg: unsafe.Add(db, 2048),
			MaxWR: uint32(perQP),
		}, nil, nil)
	}
	used := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := used()
	t := new(Table)
	for _, q := range p.qps {
		t.Add(q)
	}
	p.table = used() - before
	p.cq = NewCQ(&CQConfig{Num: 1, Buf: p.buf, Entries: pollEntries, Size: 64, DBRec: unsafe.Add(db, 64),
		UAR: unsafe.Add(db, 4096), QPs: t})
	for i := range pollEntries {
		*(*uint8)(unsafe.Add(p.buf, i*64+63)) = 0xf0
	}
	bursts := make([]int, n*perQP/burst)
	for i := range bursts {
		bursts[i] = i % n
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(bursts), func(i, j int) { bursts[i], bursts[j] = bursts[j], bursts[i] })
	for _, q := range bursts {
		for range burst {
			p.order = append(p.order, q)
		}
	}
	p.next, p.at = len(p.order), make([]uint16, n)
	return p
}

// fill completes the next work requests. When none is left, it posts all of them again.
func (p *polling) fill() {
	if p.next == len(p.order) {
		p.next = 0
		for i, q := range p.qps {
			p.at[i] = uint16(q.SQ.cur)
			for range len(p.order) / len(p.qps) {
				q.SQ.commit(uint64(i), 1)
			}
		}
	}
	for p.left < pollEntries && p.next < len(p.order) {
		k := p.order[p.next]
		put64(unsafe.Add(p.buf, uintptr(p.pi%pollEntries)*64), offTail,
			opSend<<56|uint64(p.qps[k].Num)<<32|uint64(p.at[k])<<16|uint64(p.pi/pollEntries&1))
		p.at[k]++
		p.next++
		p.pi++
		p.left++
	}
}

func (p *polling) poll(b *testing.B) {
	if p.left == 0 {
		b.StopTimer()
		p.fill()
		b.StartTimer()
	}
	n, err := p.cq.Poll(p.wcs[:])
	if n != pollBatch || err != nil {
		b.Fatal(n, err)
	}
	p.left -= n
}
