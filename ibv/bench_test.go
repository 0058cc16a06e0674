package ibv

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// The benchmarks run on the fake library: a provider that writes a 64-byte entry
// for each work request, and finds as many completions as are asked for. What
// they measure is the way there and back.

// benchSide is a loop whose provider forgets what is posted.
func benchSide(b *testing.B) *side {
	s := fakeLoop(b, &CQOptions{NoEvents: true}, &QPOptions{MaxInline: 64})
	set(b, "sink", 1)
	return s
}

func writes(s *side, n int) []SendWR {
	wrs := make([]SendWR, n)
	for i := range wrs {
		wrs[i] = write(s, uint64(i), 0)
	}
	return wrs
}

var batches = []int{1, 16, 32}

func perWR(b *testing.B, batch int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/wr")
}

func BenchmarkPostSend(b *testing.B) {
	for _, n := range batches {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			s := benchSide(b)
			wrs := writes(s, n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, n)
		})
	}
}

// BenchmarkPostFrame posts frames of a raw packet QP, in turn: as PostSend does, with the checks of other work
// requests, which a second SGE of no bytes calls for, and without any check.
func BenchmarkPostFrame(b *testing.B) {
	for _, n := range batches {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			s := fakeRaw(b, RawOptions{})
			ok(b, s.qp.Modify(&QPAttr{State: StateInit, Port: 1}, MaskState|MaskPort))
			ok(b, s.qp.Modify(&QPAttr{State: StateRTR}, MaskState))
			ok(b, s.qp.Modify(&QPAttr{State: StateRTS}, MaskState))
			set(b, "sink", 1)
			wrs := make([]SendWR, n)
			for i := range wrs {
				wrs[i] = SendWR{Opcode: OpSend, SGEs: []SGE{s.mr.SGE(0, 64)}}
			}
			frames, checked, plain := math.Inf(1), math.Inf(1), math.Inf(1)
			two := slices.Clone(wrs)
			for i := range two {
				two[i].SGEs = []SGE{s.mr.SGE(0, 64), {}}
			}
			pass := func(set uint32, wrs []SendWR) float64 {
				s.qp.sq.chain.Plain(set)
				began := time.Now()
				for range 100 {
					if _, err := s.qp.PostSend(wrs); err != nil {
						b.Fatal(err)
					}
				}
				return float64(time.Since(began).Nanoseconds()) / float64(100*n)
			}
			for b.Loop() {
				frames = min(frames, pass(0, wrs))
				checked = min(checked, pass(0, two))
				plain = min(plain, pass(1<<abi.IBV_WR_SEND, wrs))
			}
			b.ReportMetric(frames, "ns-frame")
			b.ReportMetric(checked, "ns-checked")
			b.ReportMetric(plain, "ns-plain")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func BenchmarkPostSendInline(b *testing.B) {
	for _, size := range []int{8, 64} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			s := benchSide(b)
			wrs := []SendWR{{Opcode: OpWrite, Inline: make([]byte, size), Remote: s.mr.Remote().At(0)}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPostRecv(b *testing.B) {
	for _, n := range batches {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			s := benchSide(b)
			wrs := make([]RecvWR, n)
			for i := range wrs {
				wrs[i] = RecvWR{ID: uint64(i), SGEs: []SGE{s.mr.SGE(0, 64)}}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.qp.PostRecv(wrs); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, n)
		})
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, n := range batches {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			s := benchSide(b)
			sge, to := s.mr.SGE(0, 64), s.mr.Remote().At(4096)
			ba := s.qp.Batch()
			b.ReportAllocs()
			for b.Loop() {
				for i := range n {
					ba.Write(uint64(i), 0, sge, to)
				}
				if err := ba.Post(); err != nil {
					b.Fatal(err)
				}
			}
			perWR(b, n)
		})
	}
}

func BenchmarkPoll(b *testing.B) {
	for _, c := range []struct {
		name  string
		n     int
		flood int
	}{{"empty", 16, 0}, {"hit", 1, 1}, {"16", 16, 1}} {
		b.Run(c.name, func(b *testing.B) {
			s := benchSide(b)
			set(b, "flood", c.flood)
			wcs := make([]WC, c.n)
			b.ReportAllocs()
			for b.Loop() {
				if n, err := s.cq.Poll(wcs); err != nil || n != c.n*c.flood {
					b.Fatal(n, err)
				}
			}
			perWR(b, c.n)
		})
	}
}

// BenchmarkPingPong posts one write and polls its completion, with a provider
// that copies the data.
func BenchmarkPingPong(b *testing.B) {
	s := fakeLoop(b, &CQOptions{NoEvents: true}, nil)
	wrs := []SendWR{write(s, 1, Signaled)}
	wcs := make([]WC, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.qp.PostSend(wrs); err != nil {
			b.Fatal(err)
		}
		if n, err := s.cq.Poll(wcs); err != nil || n != 1 || wcs[0].Status != WCSuccess {
			b.Fatal(n, err)
		}
	}
}
