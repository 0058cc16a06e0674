package ibv

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestFigures measures posting and polling on the fake provider against the same
// loops in C, through the same table of the same objects, in turns.
func TestFigures(t *testing.T) {
	if os.Getenv("PUREVERBS_FIGURES") == "" {
		t.Skip("measures: make bench")
	}
	lib := needFake(t)
	s := fakeLoop(t, &CQOptions{NoEvents: true}, &QPOptions{MaxInline: 64})
	set(t, "sink", 1)
	set(t, "flood", 1)

	cWrite := struct {
		addr, remote             uint64
		lkey, rkey, length, zero uint32
	}{s.mr.Addr(), s.mr.Remote().At(4096).Addr, s.mr.LKey(), s.mr.RKey(), 64, 0}
	var pin runtime.Pinner
	pin.Pin(&cWrite)
	defer pin.Unpin()
	wr := uintptr(unsafe.Pointer(&cWrite))
	inC := func(fn string, args ...uintptr) func(n int) time.Duration {
		addr, err := lib.Symbol(fn)
		if err != nil {
			t.Fatal(err)
		}
		return func(n int) time.Duration {
			ns := int64(ccall.Uint64(addr, append(args, uintptr(n))...))
			if ns < 0 {
				t.Fatalf("%s failed", fn)
			}
			return time.Duration(ns)
		}
	}
	inGo := func(f func()) func(n int) time.Duration {
		return func(n int) time.Duration {
			start := time.Now()
			for range n {
				f()
			}
			return time.Since(start)
		}
	}
	taken := func(n int, err error) {
		if n == 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	send1, send16 := writes(s, 1), writes(s, 16)
	inline := []SendWR{{Opcode: OpWrite, Inline: make([]byte, 64), Remote: s.mr.Remote().At(4096)}}
	recv16 := make([]RecvWR, 16)
	for i := range recv16 {
		recv16[i] = RecvWR{ID: uint64(i), SGEs: []SGE{s.mr.SGE(0, 64)}}
	}
	sge, to := s.mr.SGE(0, 64), s.mr.Remote().At(4096)
	b := s.qp.Batch()
	batch16 := func() {
		for i := range uint64(16) {
			b.Write(i, 0, sge, to)
		}
		if err := b.Post(); err != nil {
			t.Fatal(err)
		}
	}
	wcs := make([]WC, 16)
	post := func(wrs []SendWR) func() { return func() { taken(s.qp.PostSend(wrs)) } }
	poll := func(wcs []WC) func() {
		return func() {
			n, err := s.cq.Poll(wcs)
			taken(n, err)
			for i := range wcs[:n] {
				if wcs[i].Status != WCSuccess {
					t.Fatal(wcs[i])
				}
			}
		}
	}
	ways := []struct {
		name string
		per  int // work requests or completions in one go
		run  func(n int) time.Duration
	}{
		{"post_send_1_ns", 1, inGo(post(send1))},
		{"post_send_1_c_ns", 1, inC("fv_time_send", s.qp.handle, wr, 1)},
		{"post_send_16_ns", 16, inGo(post(send16))},
		{"batch_16_ns", 16, inGo(batch16)},
		{"post_send_16_c_ns", 16, inC("fv_time_send", s.qp.handle, wr, 16)},
		{"post_send_inline_64_ns", 1, inGo(post(inline))},
		{"post_recv_1_ns", 1, inGo(func() { taken(s.qp.PostRecv(recv16[:1])) })},
		{"post_recv_1_c_ns", 1, inC("fv_time_recv", s.qp.handle, wr, 1)},
		{"post_recv_16_ns", 16, inGo(func() { taken(s.qp.PostRecv(recv16)) })},
		{"post_recv_16_c_ns", 16, inC("fv_time_recv", s.qp.handle, wr, 16)},
		{"poll_1_ns", 1, inGo(poll(wcs[:1]))},
		{"poll_1_c_ns", 1, inC("fv_time_poll", s.cq.handle, 1)},
		{"poll_16_ns", 16, inGo(poll(wcs))},
		{"poll_16_c_ns", 16, inC("fv_time_poll", s.cq.handle, 16)},
	}
	const rounds, total = 101, 1 << 13 // short, so that most rounds keep their processor
	times := make([][]float64, len(ways))
	for range rounds {
		for i, w := range ways {
			n := total / w.per
			w.run(n / 16)
			times[i] = append(times[i], float64(w.run(n).Nanoseconds())/float64(n*w.per))
		}
	}
	way, _ := ccall.HotPath()
	fmt.Printf("# fake provider, calls through %s: it says nothing about a NIC; ns for each work request or "+
		"completion\n", way)
	fmt.Println("# processor:", testutil.Processor())
	for i, w := range ways {
		slices.Sort(times[i])
		fmt.Printf("figure fake_%s %.1f ns\n", w.name, times[i][rounds/2])
	}
	allocs := func(name string, f func()) {
		fmt.Printf("figure %s %.0f allocs/op\n", name, testing.AllocsPerRun(1000, f))
	}
	allocs("post_send_allocs", post(send16))
	allocs("post_send_inline_allocs", post(inline))
	allocs("batch_allocs", batch16)
	allocs("post_recv_allocs", func() { taken(s.qp.PostRecv(recv16)) })
	allocs("poll_allocs", poll(wcs))
}
