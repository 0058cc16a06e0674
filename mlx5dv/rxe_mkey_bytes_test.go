package mlx5dv

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// Both data paths write the same WQEs, byte for byte: libmlx5 those of the one, Go those of the other.
func TestRXEMkeyBytes(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	lib, _, err := begin(dev, "test").reach()
	ok(t, err)
	const ops = withMkey | WithMemcpy
	paths := []ibv.DataPath{ibv.DataPathDirect, ibv.DataPathOps}
	var sides [2]*mkeySide
	var rings [2][]byte
	pd := closing(t, must(dev.AllocPD())(t))
	mr := closing(t, must(pd.AllocMR(mkeyMemory, ibv.LocalWrite|ibv.RemoteWrite, nil))(t))
	key := closing(t, must(CreateMkey(pd, &MkeyOptions{MaxEntries: 9}))(t))
	for i, path := range paths {
		s := &mkeySide{t: t, pd: pd, mr: mr, key: key}
		s.cq = closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: path}))(t))
		qp, err := CreateQP(pd, s.cq, s.cq, &QPOptions{QPOptions: ibv.QPOptions{MaxSendWR: 8, MaxInline: 160},
			DriverOps: ops})
		if must(QueryDevice(dev))(t).MaxWRMemcpy == 0 || path == ibv.DataPathOps && err != nil {
			if !errors.Is(err, ibv.ErrNotSupported) {
				t.Fatal(err)
			}
			t.Logf("an older library: %v", err)
			return
		}
		s.qp = closing(t, must(qp, err)(t))
		loop(t, s.qp)
		h, leave, err := verbs.Enter(s.qp, "test")
		ok(t, err)
		v := must(lib.InitQP(h, 0))(t)
		leave()
		rings[i] = memory(v.SQ.Buf, uint64(v.SQ.WQECnt)*64)
		sides[i] = s
	}
	if len(rings[0]) != len(rings[1]) {
		t.Fatalf("rings of %d and %d bytes", len(rings[0]), len(rings[1]))
	}
	r := rand.New(rand.NewPCG(5, 6))
	at, wraps := 0, 0
	for i := range 300 {
		c, _ := sides[0].randomLayout(r)
		switch i % 6 {
		case 3:
			c = MkeyConfig{Access: ibv.RemoteRead}
		case 4:
			c.Access = 0
		}
		flags := ibv.Signaled | []ibv.SendFlags{0, ibv.Fence, ibv.Solicited}[i%3]
		wr := ibv.SendWR{ID: uint64(i), Opcode: ibv.OpDriver1, Flags: flags, Mkey: must(key.Change(&c))(t)}
		if i%6 == 5 {
			wr = Memcpy(uint64(i), flags, mr.SGE(0, i), mr.SGE(5000, i))
		}
		var wqe [2][]byte
		for k, s := range sides {
			post(t, s.qp, wr)
			if wc := s.done(uint64(i)); wc.Opcode.IsRecv() {
				t.Errorf("%v: %+v", paths[k], wc)
			}
			w := append(bytes.Clone(rings[k][at:]), rings[k][:at]...)
			wqe[k] = w[:int(w[7]&0x3f)*16]
			copy(wqe[k][4:7], "QPN")
			if i%6 == 5 {
				clear(wqe[k][12:16]) // libmlx5 leaves what stood in the ring
				clear(wqe[k][20:32]) // where each has room for notes
			}
		}
		if !bytes.Equal(wqe[0], wqe[1]) {
			t.Fatalf("%d, %+v: %v wrote\n% x, and %v\n% x", i, c, paths[0], wqe[0], paths[1], wqe[1])
		}
		if at += (len(wqe[0]) + 63) &^ 63; at >= len(rings[0]) {
			at, wraps = at-len(rings[0]), wraps+1
		}
	}
	if wraps < 5 {
		t.Errorf("the ring began anew %d times", wraps)
	}
}
