package ibv

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// opsOf are the operations of each transport that every provider of struct ibv_qp_ex has.
var opsOf = map[QPType]SendOps{
	RC: SendOpWrite | SendOpWriteImm | SendOpSend | SendOpSendImm | SendOpRead | SendOpCompareSwap | SendOpFetchAdd,
	UC: SendOpWrite | SendOpWriteImm | SendOpSend | SendOpSendImm,
	UD: SendOpSend | SendOpSendImm,
}

// Each operation does by ibv_wr_* what it does by ibv_post_send: the same memory at both ends, the same completions.
// The direct data path knows the operations, and posts them as ever.
func TestRXE_SendOps(t *testing.T) {
	for _, typ := range []QPType{RC, UC, UD} {
		t.Run(typ.String(), func(t *testing.T) {
			want, got := sendOpsResults(t, typ, 0), sendOpsResults(t, typ, opsOf[typ])
			if len(got) != len(want) || len(got) < 14 {
				t.Fatalf("%d and %d work requests", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%s\nby post_send %s", got[i], want[i])
				}
			}
		})
	}
}

// sendOpsResults posts work requests of a transport, with and without SendOps, and tells what came of each.
func sendOpsResults(t *testing.T, typ QPType, ops SendOps) (all []string) {
	rxe := testutil.NeedRXE(t)
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	opt := &QPOptions{Type: typ, MaxSendSGE: 3, MaxRecvSGE: 1, MaxInline: 64, SendOps: ops}
	qa, qb := a.newQP(t, opt), b.newQP(t, &QPOptions{Type: typ})
	ea, eb := must(qa.Endpoint(rxe.Port, rxe.GID))(t), must(qb.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, qa.Connect(eb, nil))
	ok(t, qb.Connect(ea, nil))
	var ah *AH
	if typ == UD {
		ah = closing(t, must(a.pd.CreateAH(must(qa.Address(eb, nil))(t)))(t))
	}
	mem, peer := a.mr.Bytes()[:4096], b.mr.Bytes()[:4096]
	for _, op := range []Opcode{OpWrite, OpWriteImm, OpSend, OpSendImm, OpRead, OpCompareSwap, OpFetchAdd} {
		if opcodesOf(typ)>>op&1 == 0 {
			continue
		}
		atomic := op == OpCompareSwap || op == OpFetchAdd
		for i, flags := range []SendFlags{0, Fence, Solicited, Inline, 0, 0, 0} {
			if flags == Inline && (atomic || op == OpRead) || i > 3 && atomic {
				continue
			}
			fill(mem, int(op)+i)
			fill(peer, int(op)+i+100)
			wr := SendWR{ID: uint64(op)<<8 | uint64(i), Opcode: op, Flags: flags | Signaled, Imm: 0x01020304,
				Remote: b.mr.Remote().At(1024), CompareAdd: 0xabcdef, Swap: 77}
			if i == 0 && op == OpCompareSwap {
				wr.CompareAdd = binary.NativeEndian.Uint64(peer[1024:])
			}
			switch {
			case atomic || i == 1:
				wr.SGEs = []SGE{a.mr.SGE(64, 8)}
			case i == 0 || i == 3 || i == 2: // with unequal lengths
				wr.SGEs = []SGE{a.mr.SGE(0, 3), a.mr.SGE(100, 20), a.mr.SGE(50, 1)}
			case i == 4 && op != OpRead:
				wr.Inline = []byte("inline data")
			case i == 5:
				wr.SGEs = []SGE{a.mr.SGE(200, 1000)}
			}
			if typ == UD {
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, qb.Num(), DefaultQKey
			}
			got := ""
			arrives := op == OpSend || op == OpSendImm || op == OpWriteImm
			if arrives {
				recv(t, qb, RecvWR{ID: 5, SGEs: []SGE{b.mr.SGE(2048, 1500)}})
			}
			post(t, qa, wr)
			if arrives {
				wc := b.good(t, 5)
				got = fmt.Sprintf("received %v of %d, imm %#x", wc.Opcode, wc.ByteLen, wc.Imm)
			}
			wc := a.good(t, wr.ID)
			if typ == UC && !arrives { // a write that nobody acknowledges is there when the next message is
				recv(t, qb, RecvWR{ID: 6})
				post(t, qa, SendWR{ID: 7, Opcode: OpSend, Flags: Signaled})
				a.good(t, 7)
				b.good(t, 6)
			}
			if typ == UD {
				clear(peer[2048:2088]) // the GRH, which has a checksum of its own
			}
			all = append(all, fmt.Sprintf("%v %d: %v of %d, %s; %x %x", op, i, wc.Opcode, wc.ByteLen, got,
				sha256.Sum256(mem), sha256.Sum256(peer)))
		}
	}
	return all
}

// A queue without room takes what fits, and nothing is damaged: by ibv_wr_* as by ibv_post_send.
func TestRXE_SendOpsFull(t *testing.T) {
	for _, ops := range []SendOps{0, SendOpWrite} {
		t.Run(ops.String(), func(t *testing.T) {
			a, b := newPair(t, &QPOptions{MaxSendWR: 16, SendOps: ops}, nil)
			id, done := uint64(0), uint64(0)
			var wcs [64]WC
			for id < 3000 {
				var wrs []SendWR
				for range 40 {
					off := int(id) % 2048 * 8
					for i := range 8 {
						a.mr.Bytes()[off+i] = byte(id >> (i % 2 * 8))
					}
					wrs = append(wrs, SendWR{ID: id, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(off, 8)},
						Remote: b.mr.Remote().At(uint64(off))})
					id++
				}
				for len(wrs) > 0 {
					n, err := a.qp.PostSend(wrs)
					if err != nil && !errors.Is(err, ErrQueueFull) {
						t.Fatalf("%d posted: %v", n, err)
					}
					wrs = wrs[n:]
					for got := must(a.cq.Poll(wcs[:3]))(t); got > 0; got = must(a.cq.Poll(wcs[:3]))(t) {
						for _, wc := range wcs[:got] {
							if wc.ID != done || wc.Err() != nil {
								t.Fatalf("completion %+v, want %d", wc, done)
							}
							done++
						}
						if id%3 == 0 {
							break // the queue stays nearly full
						}
					}
				}
			}
			for ; done < id; done++ {
				a.good(t, done)
			}
			if !bytes.Equal(b.mr.Bytes()[:2048*8], a.mr.Bytes()[:2048*8]) {
				t.Error("what was written is not what was posted")
			}
		})
	}
}

// Flush and atomic write: where the device lacks one, it is refused when the QP is created.
func TestRXE_FlushAndAtomicWrite(t *testing.T) {
	s := newSide(t, 0, nil)
	lacks := false
	for op, c := range map[SendOps]DeviceCapFlags{SendOpFlush: DeviceFlushGlobal | DeviceFlushPersistent,
		SendOpAtomicWrite: DeviceAtomicWrite} {
		if s.dev.attr.Ex.CapFlagsEx&c != 0 {
			continue
		}
		lacks = true
		_, err := s.pd.CreateQP(s.cq, s.cq, &QPOptions{SendOps: SendOpWrite | op})
		var ue *UnsupportedError
		if !errors.As(err, &ue) {
			t.Errorf("%T", err)
		}
		wantErr(t, err, ErrNotSupported, op.String(), c.String(), s.dev.Name())
	}
	if lacks {
		return
	}
	a, b := newPair(t, &QPOptions{SendOps: opsOf[RC] | SendOpFlush | SendOpAtomicWrite},
		&ConnectOptions{Access: RemoteWrite | FlushGlobal | FlushPersistent})
	mr := closing(t, must(b.pd.AllocMR(4096, LocalWrite|RemoteWrite|FlushGlobal, nil))(t))
	at := mr.Remote().At
	fill(a.mr.Bytes()[:64], 1)
	batch := a.qp.Batch()
	batch.Write(1, Signaled, a.mr.SGE(0, 64), at(0))
	batch.Flush(2, Signaled, at(0), FlushRange{Type: FlushToMemory, Length: 64})
	batch.AtomicWrite(3, Signaled, at(128), [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	batch.Flush(4, Signaled, at(0), FlushRange{Type: FlushToMemory, Level: FlushMR})
	ok(t, batch.Post())
	for _, want := range []WC{{ID: 1, Opcode: WCWrite}, {ID: 2, Opcode: WCFlush}, {ID: 3, Opcode: WCAtomicWrite},
		{ID: 4, Opcode: WCFlush}} {
		if wc := a.good(t, want.ID); wc.Opcode != want.Opcode {
			t.Errorf("%+v", wc)
		}
	}
	same(t, mr.Bytes()[:64], 1)
	if got := mr.Bytes()[128:136]; !slices.Equal(got, []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("the atomic write wrote %v", got)
	}
	// The MR does not allow persistence.
	post(t, a.qp, SendWR{ID: 5, Opcode: OpFlush, Remote: at(0),
		Flush: &FlushRange{Type: FlushToPersistence, Length: 8}})
	if wc := a.next(t); wc.ID != 5 || wc.Status != WCRemAccessErr {
		t.Errorf("%+v", wc)
	}
}
