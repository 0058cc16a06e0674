package mlx5dv

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/level"
)

// TestRXEFaults pretends that libmlx5 has the faults of older releases, which docs/libmlx5.md lists.
func TestRXEFaults(t *testing.T) {
	for _, f := range []*level.Fault{&level.SignedKeys, &level.RawOpcode, &level.DevXState, &level.LongBlocks} {
		was := *f
		t.Cleanup(func() { *f = was })
		*f = level.Fault{Fixed: "9999.0"}
	}
	dev := open(t, 0)
	if dev == nil {
		return
	}
	pd := closing(t, must(dev.AllocPD())(t))
	mr := closing(t, must(pd.AllocMR(4096, ibv.LocalWrite, nil))(t))
	for _, path := range []ibv.DataPath{ibv.DataPathOps, ibv.DataPathAuto} {
		cq := closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: path}))(t))
		path, _ := cq.DataPath()
		byOps := path == ibv.DataPathOps
		qp := closing(t, must(pd.CreateQP(cq, cq, nil))(t))
		cmd := make([]byte, 64) // that no device knows
		if err := DevXModify(qp, cmd, make([]byte, 64)); err == nil || (strings.Contains(err.Error(), "v41")) != byOps {
			t.Errorf("%v: a command for a QP: %v", path, err)
		}
		_, err := CreateQP(pd, cq, cq, &QPOptions{DriverOps: WithRawWQE})
		if !errors.Is(err, ibv.ErrNotSupported) || byOps != strings.Contains(err.Error(), "v39") {
			t.Errorf("%v: RawWQE: %v", path, err)
		}
		lists, err := CreateQP(pd, cq, cq, &QPOptions{QPOptions: ibv.QPOptions{MaxInline: 64},
			DriverOps: WithMRInterleaved})
		if errors.Is(err, ibv.ErrNotSupported) { // an older library
			continue
		}
		closing(t, must(lists, err)(t))
		loop(t, lists)
		key := closing(t, must(CreateMkey(pd, nil))(t))
		for repeat, want := range map[uint32]bool{math.MaxUint32 / 1000: false, math.MaxUint32/1000 + 1: byOps} {
			change := must(key.Change(&MkeyConfig{Access: ibv.LocalWrite, Repeat: repeat,
				Blocks: []Block{{Addr: mr.Addr(), Bytes: 1000, LKey: mr.LKey()}}}))(t)
			_, err := lists.PostSend([]ibv.SendWR{{Opcode: ibv.OpDriver1, Mkey: change}})
			var le *ibv.LimitError
			if errors.As(err, &le) != want || !want && err != nil || want && le.Limit != math.MaxUint32 {
				t.Errorf("%v: %d times 1000 bytes: %v", path, repeat, err)
			}
		}
	}
	for _, f := range []MkeyFlags{MkeyBlockSignature, MkeyCrypto} {
		_, err := CreateMkey(pd, &MkeyOptions{Flags: f})
		wantError(t, err, ibv.ErrNotSupported, "v44", "behind the send queue")
	}
}

// TestRXEMkeyRoom: before v45, libmlx5 makes the send queue of a QP for changes of keys that posts neither windows nor
// invalidations too short, and writes over work requests that the device has not read.
func TestRXEMkeyRoom(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: ibv.DataPathOps}))(t))
	const depth = 16
	qp, err := CreateQP(pd, cq, cq, &QPOptions{DriverOps: WithMkeyConfigure,
		QPOptions: ibv.QPOptions{MaxSendWR: depth, MaxInline: 12, SendOps: ibv.SendOpSend}})
	if errors.Is(err, ibv.ErrNotSupported) { // a library before v36
		return
	}
	closing(t, must(qp, err)(t))
	lib, _, err := begin(dev, "test").reach()
	ok(t, err)
	h, leave, err := verbs.Enter(qp, "test")
	ok(t, err)
	defer leave()
	// The control segments of a change have 128 bytes, and its entries come in blocks of 64.
	if v := must(lib.InitQP(h, 0))(t); v.SQ.WQECnt*v.SQ.Stride < depth*(128+64) {
		t.Errorf("a ring of %d blocks of %d bytes for %d changes of 192 bytes", v.SQ.WQECnt, v.SQ.Stride, depth)
	}
}
