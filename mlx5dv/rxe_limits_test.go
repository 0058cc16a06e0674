package mlx5dv

import (
	"errors"
	"math"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// TestRXENumbersThatCCuts asks for what would be little in the bits that C has for
// it.
func TestRXENumbersThatCCuts(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(16, nil))(t))
	newCQ := func(n int, o CQOptions) error {
		cq, err := CreateCQ(dev, n, &o)
		if err == nil {
			err = cq.Close()
		}
		return err
	}
	newQP := func(o ibv.QPOptions) error {
		qp, err := CreateQP(pd, cq, cq, &QPOptions{QPOptions: o})
		if err == nil {
			err = qp.Close()
		}
		return err
	}
	for _, n := range []int{1<<32 + 5, 1 << 32, 1<<31 + 5, math.MaxUint32, math.MaxInt32, 1<<28 + 1, math.MaxInt} {
		for name, err := range map[string]error{
			"cqe":             newCQ(n, CQOptions{}),
			"comp_vector":     newCQ(16, CQOptions{CQOptions: ibv.CQOptions{CompVector: n}}),
			"max_send_wr":     newQP(ibv.QPOptions{MaxSendWR: n}),
			"max_recv_wr":     newQP(ibv.QPOptions{MaxRecvWR: n}),
			"max_send_sge":    newQP(ibv.QPOptions{MaxSendSGE: n}),
			"max_recv_sge":    newQP(ibv.QPOptions{MaxRecvSGE: n}),
			"max_inline_data": newQP(ibv.QPOptions{MaxInline: n}),
		} {
			var le *ibv.LimitError
			if !errors.As(err, &le) || le.What != name || le.Asked != uint64(n) {
				t.Errorf("%s %#x: %v", name, n, err)
			}
		}
	}
	var ae *ibv.ArgError
	for _, size := range []int{1<<16 + 64, 1<<32 + 128, -64} {
		if err := newCQ(16, CQOptions{EntrySize: size}); !errors.As(err, &ae) || ae.Arg != "EntrySize" {
			t.Errorf("EntrySize %d: %v", size, err)
		}
	}
	raw := CQOptions{CQOptions: ibv.CQOptions{DataPath: ibv.DataPathRaw}}
	for _, f := range []CQEFormats{1 << 8, 1 << 31, CQEChecksumStride << 1} {
		raw.Compression = f
		if err := newCQ(16, raw); !errors.As(err, &ae) || ae.Arg != "Compression" {
			t.Errorf("Compression %v: %v", f, err)
		}
	}
}
