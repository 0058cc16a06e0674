package ibv

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
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
	badMasked(t, a, wr)
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
