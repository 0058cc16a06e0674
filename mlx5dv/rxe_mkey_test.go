package mlx5dv

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// mkeySide is a QP that is connected with itself, and memory.
type mkeySide struct {
	t   testing.TB
	pd  *ibv.PD
	cq  *ibv.CQ
	mr  *ibv.MR
	qp  *ibv.QP
	key *Mkey
}

const mkeyMemory = 1 << 16

// newMkeySide returns nil on SoftRoCE. It skips nothing: where a library lacks the operations it looks at the refusal
// and returns nil too.
func newMkeySide(t testing.TB, ops DriverOps, opt *MkeyOptions) *mkeySide {
	t.Helper()
	if dev := open(t, 0); dev != nil {
		return newMkeySideOn(t, dev, ibv.DataPathAuto, ops, opt)
	}
	return nil
}

// keyWriter returns the data path that posts signatures of keys: with libmlx5 only its own.
func keyWriter(dev *ibv.Device) ibv.DataPath {
	if native(dev) {
		return ibv.DataPathDirect
	}
	return ibv.DataPathOps
}

func newMkeySideOn(t testing.TB, dev *ibv.Device, path ibv.DataPath, ops DriverOps, opt *MkeyOptions) *mkeySide {
	t.Helper()
	s := &mkeySide{t: t, pd: closing(t, must(dev.AllocPD())(t))}
	s.cq = closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: path}))(t))
	s.mr = closing(t, must(s.pd.AllocMR(mkeyMemory, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead|ibv.RemoteAtomic,
		nil))(t))
	qp, err := CreateQP(s.pd, s.cq, s.cq, &QPOptions{QPOptions: ibv.QPOptions{MaxSendWR: 16, MaxInline: 160},
		DriverOps: ops})
	if errors.Is(err, ibv.ErrNotSupported) {
		lacks := ops & (WithMkeyConfigure | WithRawWQE | WithMemcpy) // of older libraries
		if path, _ := s.cq.DataPath(); path == ibv.DataPathDirect {
			lacks = ops & WithRawWQE
			attr := must(QueryDevice(dev))(t)
			if attr.MaxWRMemcpy == 0 {
				lacks |= ops & WithMemcpy
			}
			if attr.Has&HasSignature == 0 { // of v36, as MkeyConfigure
				lacks |= ops & WithMkeyConfigure
			}
		}
		if lacks == 0 {
			t.Fatal(err)
		}
		t.Logf("an older library, or a data path without: %v", err)
		return nil
	}
	s.qp = closing(t, must(qp, err)(t))
	loop(t, s.qp)
	s.key = closing(t, must(CreateMkey(s.pd, opt))(t))
	return s
}

// done waits for the completion of a work request.
func (s *mkeySide) done(id uint64) ibv.WC {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testutil.Patience)
	defer cancel()
	var wc [1]ibv.WC
	if _, err := s.cq.Wait(ctx, wc[:]); err != nil {
		s.t.Fatal(err)
	}
	ok(s.t, wc[0].Err())
	if wc[0].ID != id {
		s.t.Fatalf("completion of %d, want %d", wc[0].ID, id)
	}
	return wc[0]
}

// randomLayout returns a layout of disjoint pieces in the first half of the memory, and where its bytes lie.
func (s *mkeySide) randomLayout(r *rand.Rand) (c MkeyConfig, at []int) {
	const part = 4096
	n := 1 + r.IntN(6)
	c.Access = ibv.LocalWrite | ibv.RemoteRead | ibv.RemoteWrite | ibv.RemoteAtomic
	if r.IntN(2) == 0 {
		for i := range n {
			from, length := i*part+r.IntN(part/2), 1+r.IntN(part/2)
			c.List = append(c.List, s.mr.SGE(from, length))
			for k := range length {
				at = append(at, from+k)
			}
		}
		return c, at
	}
	c.Repeat = 1 + r.Uint32N(40)
	for i := range n {
		b := Block{Addr: s.mr.Addr() + uint64(i*part), Bytes: 1 + r.Uint32N(60), Skip: r.Uint32N(40), LKey: s.mr.LKey()}
		c.Blocks = append(c.Blocks, b)
	}
	for round := range int(c.Repeat) {
		for i, b := range c.Blocks {
			for k := range int(b.Bytes) {
				at = append(at, i*part+round*int(b.Bytes+b.Skip)+k)
			}
		}
	}
	return c, at
}

// Keys with random layouts are read and written here and by the peer; memory is compared with a model.
func TestRXEMkey(t *testing.T) {
	s := newMkeySide(t, WithMRInterleaved|WithMRList, &MkeyOptions{MaxEntries: 9})
	if s == nil {
		return
	}
	r := rand.New(rand.NewPCG(1, 2))
	mem, image := s.mr.Bytes(), make([]byte, mkeyMemory)
	for i := range uint64(200) {
		for k := range image {
			image[k] = byte(r.Uint32())
		}
		copy(mem, image)
		c, at := s.randomLayout(r)
		change := must(s.key.Change(&c))(t)
		off := r.IntN(len(at))
		n := 1 + r.IntN(len(at)-off)
		const flat = mkeyMemory / 2
		key := ibv.SGE{Addr: uint64(off), Length: uint32(n), LKey: s.key.LKey()}
		remote := ibv.RemoteMemory{RKey: s.key.RKey(), Length: uint64(len(at))}.At(uint64(off))
		wr := ibv.SendWR{ID: i, Flags: ibv.Signaled}
		switch i % 4 {
		case 0:
			wr.Opcode, wr.SGEs, wr.Remote = ibv.OpWrite, []ibv.SGE{key}, s.mr.Remote().At(flat)
		case 1:
			wr.Opcode, wr.SGEs, wr.Remote = ibv.OpRead, []ibv.SGE{key}, s.mr.Remote().At(flat)
		case 2:
			wr.Opcode, wr.SGEs, wr.Remote = ibv.OpWrite, []ibv.SGE{s.mr.SGE(flat, n)}, remote
		case 3:
			wr.Opcode, wr.SGEs, wr.Remote = ibv.OpRead, []ibv.SGE{s.mr.SGE(flat, n)}, remote
		}
		for k := range n {
			if p := at[off+k]; i%4 == 0 || i%4 == 3 {
				image[flat+k] = image[p]
			} else {
				image[p] = image[flat+k]
			}
		}
		configure := ibv.SendWR{ID: 1 << 20, Opcode: ibv.OpDriver1, Mkey: change}
		if i%8 < 2 {
			configure.Flags = ibv.Signaled
		}
		if n, err := s.qp.PostSend([]ibv.SendWR{configure, wr}); n != 2 {
			t.Fatalf("%d: %d posted, %v", i, n, err)
		}
		if i%8 < 2 {
			if wc := s.done(1 << 20); wc.Opcode != ibv.WCDriver1 {
				t.Fatalf("completion of a changed key: %+v", wc)
			}
		}
		s.done(i)
		if !bytes.Equal(mem, image) {
			k := 0
			for mem[k] == image[k] {
				k++
			}
			t.Fatalf("%d: %v of %d bytes at %d of %+v: byte %d is %#x, want %#x", i, wr.Opcode, n, off, c, k, mem[k],
				image[k])
		}
	}
}

// Posting what was prepared allocates nothing.
func TestRXEMkeyAllocs(t *testing.T) {
	s := newMkeySide(t, WithMRList|WithMRInterleaved, nil)
	if s == nil {
		return
	}
	sge := s.mr.SGE(0, 8)
	change := must(s.key.Change(&MkeyConfig{Access: ibv.LocalWrite, List: []ibv.SGE{sge}}))(t)
	wrs := []ibv.SendWR{{Opcode: ibv.OpDriver1, Flags: ibv.Signaled, Mkey: change}}
	if path, _ := s.cq.DataPath(); path == ibv.DataPathDirect {
		wrs = append(wrs, ibv.SendWR{Opcode: ibv.OpMaskedFetchAdd, Flags: ibv.Signaled, SGEs: []ibv.SGE{sge},
			Remote: s.mr.Remote().At(64), Masked: &ibv.MaskedAtomic{}})
	}
	var wcs [4]ibv.WC
	n := testing.AllocsPerRun(50, func() {
		if n, err := s.qp.PostSend(wrs); n != len(wrs) {
			t.Fatal(err)
		}
		for n := 0; n < len(wrs); {
			k, err := s.cq.Poll(wcs[:])
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
