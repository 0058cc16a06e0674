package mlx5

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// TestFigures measures the cost of a completion with many QPs on a CQ: with a different QP for each completion, and
// with 16 completions of a QP in a row. With more QPs it is not the lookup that gets slower, but the access to each
// QP's own memory.
func TestFigures(t *testing.T) {
	if os.Getenv("PUREVERBS_FIGURES") == "" {
		t.Skip("measures: make bench")
	}
	const entries, blocks, rounds = 16384, 64, 15
	counts := []int{1, 64, 1024, 16384}
	var cqs []*manyQPs
	for _, n := range counts {
		cqs = append(cqs, newManyQPs(n, entries, blocks))
	}
	for _, burst := range []int{1, 16} {
		ns := make([][]float64, len(counts))
		for range rounds {
			for i, m := range cqs {
				ns[i] = append(ns[i], m.pass(t, burst))
			}
		}
		suffix := map[int]string{1: "", 16: "_burst16"}[burst]
		median := func(i int) float64 {
			slices.Sort(ns[i])
			return ns[i][rounds/2]
		}
		for i, n := range counts {
			fmt.Printf("figure mlx5_poll_qps_%d%s_ns %.2f ns\n", n, suffix, median(i))
		}
		fmt.Printf("figure mlx5_poll_qps_ratio%s %.3f ratio (%d QPs to 1)\n", suffix, median(len(counts)-1)/median(0),
			counts[len(counts)-1])
	}
	for i, n := range counts {
		fmt.Printf("figure mlx5_lookup_bytes_%d %d bytes (%.1f for each QP)\n", n, cqs[i].lookup,
			float64(cqs[i].lookup)/float64(n))
	}
}

// manyQPs is a CQ of many QPs, with a device that writes completions of work requests that they never posted.
type manyQPs struct {
	cq     *CQ
	qps    []*QP
	ring   []uint64
	lookup uint64 // bytes
	lap    uint32
	blocks uint32
}

const firstQPN = 0x100

func newManyQPs(n, entries int, blocks uint32) *manyQPs {
	m := &manyQPs{ring: make([]uint64, entries*8), blocks: blocks}
	db := make([]uint64, 16)
	t := new(Table)
	for i := range n {
		q := NewQP(firstQPN+uint32(i), true, &SQConfig{
			Buf: unsafe.Pointer(&m.ring[0]), Blocks: blocks, DBRec: unsafe.Pointer(&db[0]), Reg: unsafe.Pointer(&db[0]),
			MaxWR: 1<<32 - 1,
		}, nil, nil)
		for k := range blocks {
			*q.SQ.slot(k) = slot{id: uint64(i), mark: uint64(k+1)<<32 | uint64(k+1)}
		}
		m.qps = append(m.qps, q)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, q := range m.qps {
		t.Add(q)
	}
	runtime.ReadMemStats(&after)
	m.lookup = after.TotalAlloc - before.TotalAlloc + uint64(unsafe.Sizeof(Table{}))
	m.cq = NewCQ(&CQConfig{Num: 5, Buf: unsafe.Pointer(&m.ring[0]), Entries: uint32(entries), Size: 64,
		DBRec: unsafe.Pointer(&db[8]), UAR: unsafe.Pointer(&db[8]), QPs: t})
	return m
}

// pass fills the CQ and times the polling of all of it, in ns for each completion.
func (m *manyQPs) pass(t *testing.T, burst int) float64 {
	entries := len(m.ring) / 8
	for i := range entries {
		q := i / burst % len(m.qps)
		// Blocks follow each other for each QP.
		k := uint32(i/(burst*len(m.qps))*burst+i%burst) % m.blocks
		put64(unsafe.Pointer(&m.ring[i*8]), offTail, uint64(opWrite)<<56|uint64(firstQPN+q)<<32|uint64(k)<<16|
			uint64(m.lap&1))
	}
	for _, q := range m.qps {
		q.SQ.polled = 0
	}
	m.lap++
	var wcs [16]WC
	start := time.Now()
	for range entries / len(wcs) {
		if n, err := m.cq.Poll(wcs[:]); n != len(wcs) || err != nil {
			t.Fatal(n, err)
		}
	}
	took := time.Since(start)
	if wcs[15].QPN != uint32(firstQPN+(entries-1)/burst%len(m.qps)) {
		t.Fatalf("the last completion is %+v", wcs[15])
	}
	return float64(took.Nanoseconds()) / float64(entries)
}
