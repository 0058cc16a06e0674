package mlx5dv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Commands, and where their contexts have fields, in bytes.
const (
	opCreateCQ  = 0x400
	opQueryCQ   = 0x402
	opCreateQP  = 0x500
	opRst2Init  = 0x502
	opInit2Rtr  = 0x503
	opRtr2Rts   = 0x504
	op2Err      = 0x507
	inCQ        = 16 // struct mlx5_ifc_cqc_bits
	inQP        = 24 // struct mlx5_ifc_qpc_bits
	qpPath      = 24
	qpPathBytes = 44
)

func put32(b []byte, off int, v uint32) { binary.BigEndian.PutUint32(b[off:], v) }
func put64(b []byte, off int, v uint64) { binary.BigEndian.PutUint64(b[off:], v) }
func get32(b []byte, off int) uint32    { return binary.BigEndian.Uint32(b[off:]) }

// Rings of a QP that commands make, in memory of the test: the QP is connected to itself and writes to itself.
func TestRXEDevX_Rings(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	rxe := testutil.NeedRXE(t)
	const cqRing, sqRing, records, from, to, size, logCQ, logSQ = 0, 4096, 8192, 8448, 9000, 3 * 4096, 4, 4
	pd := closing(t, must(dev.AllocPD())(t))
	mr := closing(t, must(pd.AllocMR(size, ibv.LocalWrite|ibv.RemoteWrite, nil))(t))
	mem := mr.Bytes()
	umem := closing(t, must(RegUmem(dev, mem, nil))(t))
	page := closing(t, must(AllocUAR(dev, UARBlueFlame))(t))
	for i := range 1 << logCQ {
		mem[cqRing+64*i+63] = 0xf1 // invalid, and the device's
	}
	out := make([]byte, 272)

	in := make([]byte, 272)
	binary.BigEndian.PutUint16(in, opCreateCQ)
	put32(in, inCQ, 1<<25) // the record is in a umem
	put32(in, inCQ+4, umem.ID())
	put32(in, inCQ+12, logCQ<<24|page.PageID())
	put32(in, inCQ+20, must(QueryEQN(dev, 0))(t))
	put64(in, inCQ+56, records)
	put64(in, 80, cqRing)
	put32(in, 88, umem.ID())
	_, err := CreateDevXObject(dev, in, out)
	wantStatus(t, "a CQ whose ring is in no umem", CommandBadResource, err)
	put32(in, 92, 1<<31)
	put64(in, 80, size-64)
	_, err = CreateDevXObject(dev, in, out)
	wantStatus(t, "a CQ beyond its umem", CommandBadParameter, err)
	put64(in, 80, cqRing)
	cq := closing(t, must(CreateDevXObject(dev, in, out))(t))
	cqn := get32(out, 8)
	ok(t, cq.Query(header(opQueryCQ, 0, cqn), out))
	if out[inCQ+12]&0x1f != logCQ {
		t.Errorf("a CQ of 2^%d entries", out[inCQ+12]&0x1f)
	}

	// A QP of verbs that is connected to itself has the path.
	verbsCQ := closing(t, must(dev.CreateCQ(4, nil))(t))
	view := closing(t, must(dev.CreateCQ(4, &ibv.CQOptions{DataPath: ibv.DataPathRaw}))(t))
	ok(t, view.Moderate(7, 300*time.Microsecond))
	ok(t, DevXQuery(view, header(opQueryCQ, 0, must(ViewCQ(view))(t).Num), out))
	if v := get32(out, inCQ+16); v != 300<<16|7 {
		t.Errorf("moderation %#x", v)
	}
	model := closing(t, must(pd.CreateQP(verbsCQ, verbsCQ, nil))(t))
	ok(t, model.Connect(must(model.Endpoint(rxe.Port, rxe.GID))(t), nil))
	ok(t, DevXQuery(model, header(opQueryQP, 0, model.Num()), out))
	path := bytes.Clone(out[inQP+qpPath : inQP+qpPath+qpPathBytes])
	mtu, pdn := out[inQP+8], get32(out, inQP+4)&0xffffff

	in = make([]byte, 272)
	binary.BigEndian.PutUint16(in, opCreateQP)
	put32(in, inQP+4, pdn)
	put32(in, inQP+8, logSQ<<11)
	put32(in, inQP+12, page.PageID())
	put32(in, inQP+124, cqn)
	put32(in, inQP+156, cqn)
	put64(in, inQP+160, records+64)
	put32(in, inQP+172, 3<<24) // no receive queue
	in[inQP+208] = 1 << 4      // the record is in a umem
	put32(in, inQP+228, umem.ID())
	put64(in, 256, sqRing)
	put32(in, 264, umem.ID())
	put32(in, 268, 1<<31)
	put32(in, inQP+124, cqn+99)
	_, err = CreateDevXObject(dev, in, out)
	wantStatus(t, "a QP of no CQ", CommandBadResource, err)
	put32(in, inQP+124, cqn)
	qp := must(CreateDevXObject(dev, in, out))(t)
	qpn := get32(out, 8)
	if err := cq.Close(); err == nil {
		t.Error("a CQ was destroyed under its QP")
	}

	in = make([]byte, 272)
	put32(in, 8, qpn)
	copy(in[inQP+qpPath:], path)
	in[inQP+8] = mtu
	put32(in, inQP+20, qpn)      // the peer
	put32(in, inQP+146, 0x4<<28) // remote writes
	move := func(op uint16) error {
		binary.BigEndian.PutUint16(in, op)
		return qp.Modify(in, out[:16])
	}
	wantStatus(t, "to RTR from RESET", CommandBadQPState, move(opInit2Rtr))
	for _, op := range []uint16{opRst2Init, opInit2Rtr, opRtr2Rts} {
		ok(t, move(op))
	}
	var refused *CommandError
	if err := DevXModify(model, in, out[:16]); !errors.As(err, &refused) || refused.Err != syscall.EINVAL {
		t.Errorf("another QP than the command names: %v", err)
	}

	copy(mem[from:], "by a command")
	for i := range 20 { // around both rings
		wqe := mem[sqRing+64*(i%(1<<logSQ)):][:64]
		put32(wqe, 0, uint32(i)<<8|uint32(OpWrite))
		put32(wqe, 4, qpn<<8|3)
		put32(wqe, 8, uint32(WQESignaled))
		put64(wqe, 16, mr.Remote().Addr+to+uint64(i))
		put32(wqe, 24, mr.RKey())
		put32(wqe, 32, 12)
		put32(wqe, 36, mr.LKey())
		put64(wqe, 40, mr.SGE(from, 12).Addr)
		ok(t, page.RingSend(mem[records+64+4:], uint16(i+1), wqe))
		cqe := mem[cqRing+64*(i%(1<<logCQ)):][:64]
		for lap := byte(i >> logCQ & 1); cqe[63]>>4 == 0xf || cqe[63]&1 != lap; {
			runtime.Gosched()
		}
		if cqe[63]>>4 != 0 || binary.BigEndian.Uint16(cqe[60:]) != uint16(i) || get32(cqe, 56)&0xffffff != qpn {
			t.Fatalf("work request %d: entry % x", i, cqe)
		}
		put32(mem, records, uint32(i+1)) // polled
		if !bytes.Equal(mem[to+i:][:12], []byte("by a command")) {
			t.Fatalf("work request %d wrote %q", i, mem[to+i:][:12])
		}
	}
	ok(t, move(op2Err))
	ok(t, qp.Query(header(opQueryQP, 0, qpn), out))
	if out[inQP]>>4 != 6 {
		t.Errorf("in state %d after going to ERR", out[inQP]>>4)
	}
	if err := umem.Close(); err == nil {
		t.Error("a umem was given back under the rings in it")
	}
	ok(t, qp.Close())
}
