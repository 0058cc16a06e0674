package ibv

import (
	"encoding/binary"
	"math/rand/v2"
	"syscall"
	"testing"
)

// TestFake_ExpMasked compares atomics with masks, by ibv_exp_post_send, with the model of those of the direct data
// path.
func TestFake_ExpMasked(t *testing.T) {
	inExp(t, func(t *testing.T) {
		s := fakeSide(t, nil)
		o := &QPOptions{MaxSendWR: 70, SignalAll: true}
		qp := closing(t, must(friends{}.CreateExp(s.pd, s.cq, s.cq, o, 0, 32))(t))
		ok(t, qp.Connect(must(qp.Endpoint(1, 1))(t), nil))
		wr := SendWR{Opcode: OpMaskedFetchAdd, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 8)},
			Remote: s.mr.Remote().At(4096), Masked: &MaskedAtomic{}}
		r := rand.New(rand.NewPCG(3, 4))
		local, remote := s.mr.Bytes(), s.mr.Bytes()[4096:]
		for i := range 400 {
			m := MaskedAtomic{Size: []uint32{0, 8, 16, 32}[i%4]}
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
			want := WCCompareSwap
			if wr.Opcode == OpMaskedFetchAdd {
				want = WCFetchAdd
				addWords(words, &m)
			} else {
				swapWords(words, &m)
			}
			wr.SGEs[0], wr.Masked = s.mr.SGE(0, n), &m
			post(t, qp, wr)
			if wc := s.good(t, wr.ID); wc.ByteLen != uint32(n) || wc.Opcode != want {
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
		// A whole list, whose operands lie in the chain until the call.
		clear(remote[:8*64])
		var list []SendWR
		for i := range 64 {
			list = append(list, SendWR{ID: uint64(i), Opcode: OpMaskedFetchAdd, SGEs: []SGE{s.mr.SGE(0, 16)},
				Remote: s.mr.Remote().At(uint64(4096 + i/2*16)), Masked: &MaskedAtomic{Size: 16,
					SwapAdd: [4]uint64{uint64(i), 1}}})
		}
		post(t, qp, list...)
		for i := range 32 {
			if a, b := binary.NativeEndian.Uint64(remote[16*i:]), binary.NativeEndian.Uint64(remote[16*i+8:]); a !=
				uint64(4*i+1) || b != 2 {
				t.Errorf("%d: %d, %d", i, a, b)
			}
		}
		for i := range 64 {
			s.good(t, uint64(i))
		}
		expMaskedRefused(t, s, qp, wr)
	})
}

func expMaskedRefused(t *testing.T, s *side, qp *QP, good SendWR) {
	t.Helper()
	small := closing(t, must(friends{}.CreateExp(s.pd, s.cq, s.cq, &QPOptions{}, 0, 8))(t))
	ok(t, small.Connect(must(small.Endpoint(1, 1))(t), nil))
	good.Masked = &MaskedAtomic{Size: 16}
	good.SGEs = []SGE{s.mr.SGE(0, 16)}
	_, err := small.PostSend([]SendWR{good})
	wantErr(t, err, syscall.EINVAL, "Masked.Size", "8", "MaxAtomic")
	for range 2 { // not even after one that passed
		wr := good
		wr.Masked = nil
		_, err = qp.PostSend([]SendWR{good, wr})
		wantErr(t, err, syscall.EINVAL, "Masked")
		s.good(t, good.ID)
	}
	plain := closing(t, must(s.pd.CreateQP(s.cq, s.cq, nil))(t))
	ok(t, plain.Connect(must(plain.Endpoint(1, 1))(t), nil))
	_, err = plain.PostSend([]SendWR{good})
	wantErr(t, err, ErrNotSupported, "MaxAtomic", "MLNX_OFED 4")
	set(t, "exp.atomics", 8|16)
	_, err = friends{}.CreateExp(s.pd, s.cq, s.cq, &QPOptions{}, 0, 32)
	wantErr(t, err, syscall.EINVAL)
	dci := closing(t, must(friends{}.CreateExp(s.pd, s.cq, s.cq, &QPOptions{Type: DCI}, 0, 16))(t))
	must(dci.Endpoint(1, 1))(t)
	ok(t, dci.Connect(Endpoint{}, nil))
	_, err = dci.PostSend([]SendWR{good})
	wantErr(t, err, nil, "AH")
}
