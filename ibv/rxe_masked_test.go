package ibv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_MaskedAtomics compares atomics with masks with a model, and looks at what refuses them.
func TestRXE_MaskedAtomics(t *testing.T) {
	a, b := newPair(t, &QPOptions{MaxSendWR: 5}, nil)
	wr := SendWR{ID: 1, Opcode: OpMaskedFetchAdd, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
		Remote: b.mr.Remote().At(64), Masked: &MaskedAtomic{}}
	if path, _ := a.qp.DataPath(); path != DataPathDirect {
		var u *UnsupportedError
		if _, err := a.qp.PostSend([]SendWR{wr}); !errors.As(err, &u) || !strings.Contains(u.Need, "direct") {
			t.Errorf("%v, want an UnsupportedError that names the direct data path", err)
		}
		return
	}
	r := rand.New(rand.NewPCG(1, 2))
	local, remote := a.mr.Bytes(), b.mr.Bytes()[64:]
	for i := range 400 {
		var m MaskedAtomic
		m.Size = []uint32{0, 8, 16, 32}[i%4]
		n := int(max(m.Size, 8))
		old, words := make([]uint64, n/8), make([]uint64, n/8)
		for k := range old {
			old[k] = r.Uint64()
			m.SwapAdd[k], m.Mask[k], m.CompareMask[k] = r.Uint64(), r.Uint64()&r.Uint64(), r.Uint64()
			m.Compare[k] = old[k] ^ r.Uint64()&^m.CompareMask[k]
			if i%16 == 8 {
				m.Compare[k] ^= 1 << r.IntN(64)
			}
			binary.NativeEndian.PutUint64(remote[8*k:], old[k])
		}
		wr.ID, wr.Opcode = uint64(i), []Opcode{OpMaskedCompareSwap, OpMaskedFetchAdd}[i/4%2]
		copy(words, old)
		if wr.Opcode == OpMaskedFetchAdd {
			addWords(words, &m)
		} else {
			swapWords(words, &m)
		}
		wr.SGEs[0], wr.Masked = a.mr.SGE(0, n), &m
		post(t, a.qp, wr)
		want := map[Opcode]WCOpcode{OpMaskedCompareSwap: WCCompareSwap, OpMaskedFetchAdd: WCFetchAdd}[wr.Opcode]
		if wc := a.good(t, wr.ID); wc.ByteLen != uint32(n) || wc.Opcode != want {
			t.Fatalf("completion %+v of %v of %d bytes", wc, wr.Opcode, n)
		}
		for k := range old {
			if got := binary.NativeEndian.Uint64(local[8*k:]); got != old[k] {
				t.Fatalf("%v %+v: word %d returned %#x, want %#x", wr.Opcode, m, k, got, old[k])
			}
			if got := binary.NativeEndian.Uint64(remote[8*k:]); got != words[k] {
				t.Fatalf("%v %+v of %#x: word %d is %#x, want %#x", wr.Opcode, m, old, k, got, words[k])
			}
		}
	}
	heldMasked(t, a, b)
	badMasked(t, a, wr)
}

// heldMasked has completions taken out of the ring before Poll returns them: the words are swapped then, and not again.
func heldMasked(t *testing.T, a, b *side) {
	local, remote := a.mr.Bytes()[:64], b.mr.Bytes()[64:128]
	fill(remote, 1)
	for i := range 2 {
		post(t, a.qp, SendWR{ID: uint64(i), Opcode: OpMaskedFetchAdd, Flags: Signaled, SGEs: []SGE{a.mr.SGE(i*32, 32)},
			Remote: b.mr.Remote().At(uint64(64 + i*32)), Masked: &MaskedAtomic{Size: 32}})
	}
	for end := time.Now().Add(testutil.Patience); a.cq.direct.ring.Empty() && time.Now().Before(end); {
		runtime.Gosched()
	}
	for range 2 { // as at the end of an MR
		a.dev.holdCompletions()
	}
	a.good(t, 0)
	a.dev.holdCompletions()
	a.good(t, 1)
	if !bytes.Equal(local, remote) {
		t.Errorf("% x returned, want % x", local, remote)
	}
}

// The capabilities that UCX reads: sizes & ^8 are big-endian, and 8 as well without the mode of 8 bytes.
func TestMaskedOf(t *testing.T) {
	for _, c := range []struct {
		mode         byte
		ops, qp, dc  uint16
		want, wantDC uint32
		bigEndian    uint32
	}{
		{1, 0xf, 8 | 16 | 32, 8, 8 | 16 | 32, 8, 16 | 32},
		{0, 0xf, 8 | 16 | 32, 8, 8 | 16 | 32, 8, 8 | 16 | 32},
		{3, 0xf, 4 | 8, 4 | 8, 4 | 8, 4 | 8, 4},
		{1, 7, 8 | 16, 8 | 16, 0, 0, 0}, // without fetch and add
	} {
		b := make([]byte, 64)
		b[8] = c.mode << 6
		binary.BigEndian.PutUint16(b[18:], c.ops)
		binary.BigEndian.PutUint16(b[22:], c.qp)
		binary.BigEndian.PutUint16(b[26:], c.dc)
		if got := maskedOf(b); got != (maskedSizes{c.want, c.wantDC, c.bigEndian}) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// swapWords is the compare and swap.
func swapWords(words []uint64, m *MaskedAtomic) {
	for k, w := range words {
		if (w^m.Compare[k])&m.CompareMask[k] != 0 {
			return
		}
	}
	for k := range words {
		words[k] ^= (words[k] ^ m.SwapAdd[k]) & m.Mask[k]
	}
}

// addWords adds field by field.
func addWords(words []uint64, m *MaskedAtomic) {
	for k := range words {
		sum, from := uint64(0), 0
		for to := range 64 {
			if m.Mask[k]>>to&1 == 0 && to < 63 {
				continue
			}
			field := (^uint64(0) >> (63 - to + from)) << from
			sum |= (words[k]&field + m.SwapAdd[k]&field) & field
			from = to + 1
		}
		words[k] = sum
	}
}

// badMasked posts what is wrong in an atomic with masks.
func badMasked(t *testing.T, a *side, good SendWR) {
	for _, c := range []struct {
		want string
		edit func(wr *SendWR)
	}{
		{"Masked", func(wr *SendWR) { wr.Masked = nil }},
		{"Masked.Size", func(wr *SendWR) { wr.Masked = &MaskedAtomic{Size: 12} }},
		{"Masked.Size", func(wr *SendWR) { wr.Masked = &MaskedAtomic{Size: 64} }},
		{"SGEs", func(wr *SendWR) { wr.Masked = &MaskedAtomic{Size: 16}; wr.SGEs = []SGE{a.mr.SGE(0, 8)} }},
		{"SGEs", func(wr *SendWR) { wr.SGEs = nil }},
		{"Inline", func(wr *SendWR) { wr.SGEs, wr.Inline = nil, make([]byte, 8) }},
		{"Flags", func(wr *SendWR) { // the completion swaps the words
			wr.Masked, wr.SGEs, wr.Flags = &MaskedAtomic{Size: 16}, []SGE{a.mr.SGE(0, 16)}, 0
		}},
	} {
		wr := good
		c.edit(&wr)
		var e *ArgError
		if n, err := a.qp.PostSend([]SendWR{wr}); n != 0 || !errors.As(err, &e) || e.Arg != c.want {
			t.Errorf("%d, %v, want an ArgError of %s", n, err, c.want)
		}
	}
	for name, o := range map[string]*QPOptions{"SignalAll": {SignalAll: true}, "SendOps": {SendOps: SendOpSend}} {
		c, _ := newPair(t, o, nil)
		var u *UnsupportedError
		if _, err := c.qp.PostSend([]SendWR{good}); !errors.As(err, &u) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an UnsupportedError that names %s", err, name)
		}
	}
}
