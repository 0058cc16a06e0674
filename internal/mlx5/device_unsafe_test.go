package mlx5_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// Verbs numbers, from <infiniband/verbs.h>.
const (
	wrWrite = iota
	wrWriteImm
	wrSend
	wrSendImm
	wrRead
	wrCS
	wrFA
	wrLocalInv
	wrBindMW
	wrSendInv
)

const wcBind = 5

const (
	fence = 1 << iota
	signaled
	solicited
)

// device is the other side of the rings: it reads WQEs and writes CQEs as the PRM describes them, and shares no code
// with the package. Each ring is an allocation of its own between guard pages.
type device struct {
	t       testing.TB
	sq, cq  []byte
	rq, srq []byte
	db      []byte // QP: receive word, send word
	cqdb    []byte // CQ: consumer index, arm word
	srqdb   []byte
	uar     []byte // BlueFlame register at 0x800
	cqeSize int
	pi      uint32 // CQEs written
	tab     *mlx5.Table
}

// alloc returns n bytes that end at a guard page, with another one in front.
func alloc(t testing.TB, n int) []byte {
	t.Helper()
	m, err := dma.Alloc(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	})
	size := (n + 4095) &^ 4095
	b := unsafe.Slice(unsafe.SliceData(m.Bytes()), size)
	return b[size-n : size : size]
}

func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func addr(b []byte) uint64 { return uint64(uintptr(ptr(b))) }

// size of the rings of a device under test.
type size struct {
	blocks, rqWQEs, rqStride, srqWQEs, srqStride, cqes, cqeSize int
}

func newDevice(t testing.TB, s size) *device {
	t.Helper()
	d := &device{t: t, cqeSize: s.cqeSize}
	small := alloc(t, 3*4096)
	d.db, d.cqdb, d.srqdb, d.uar = small[0:8], small[64:72], small[128:132], small[4096:8192]
	if s.blocks > 0 {
		d.sq = alloc(t, s.blocks*64)
	}
	if s.rqWQEs > 0 {
		d.rq = alloc(t, s.rqWQEs*s.rqStride)
	}
	if s.srqWQEs > 0 {
		d.srq = alloc(t, s.srqWQEs*s.srqStride)
		for i := range s.srqWQEs {
			binary.BigEndian.PutUint16(d.srq[i*s.srqStride+2:], uint16(i+1))
		}
	}
	if s.cqes > 0 {
		d.cq = alloc(t, s.cqes*s.cqeSize)
		for i := range s.cqes {
			d.cq[(i+1)*s.cqeSize-1] = 0xf0
		}
	}
	return d
}

func (d *device) sqConfig() *mlx5.SQConfig {
	return &mlx5.SQConfig{Buf: ptr(d.sq), Blocks: uint32(len(d.sq) / 64), DBRec: ptr(d.db), Reg: ptr(d.uar[0x800:]),
		MaxWR: uint32(len(d.sq) / 64)}
}

func (d *device) rqConfig(stride, maxSGE int) *mlx5.RQConfig {
	return &mlx5.RQConfig{Buf: ptr(d.rq), WQEs: uint32(len(d.rq) / stride), Stride: uint32(stride), DBRec: ptr(d.db),
		MaxSGE: maxSGE}
}

func (d *device) newSRQ(stride, maxSGE int, mu *spin.Lock) *mlx5.SRQ {
	n := len(d.srq) / stride
	return mlx5.NewSRQ(&mlx5.SRQConfig{Buf: ptr(d.srq), Stride: uint32(stride), MaxSGE: maxSGE, Head: 0,
		Tail: uint32(n - 1), WQEs: uint32(n), DBRec: ptr(d.srqdb)}, mu)
}

func (d *device) newCQ(t *mlx5.Table) *mlx5.CQ {
	return mlx5.NewCQ(&mlx5.CQConfig{
		Num: 0xabcdef, Buf: ptr(d.cq), Entries: uint32(len(d.cq) / d.cqeSize), Size: uint32(d.cqeSize),
		DBRec: ptr(d.cqdb), UAR: ptr(d.uar), QPs: t,
	})
}

// cqe is a CQE as the device writes it.
type cqe struct {
	op       byte // in op_own
	sendOp   byte
	qpn      uint32
	counter  uint16
	bytes    uint32
	imm      uint32
	slid     uint16
	rqpn     uint32 // flags, SL, QPN of the sender
	path     byte
	ts       uint64
	syndrome byte
	vendor   byte
	format   byte // 1: 32 bytes in the entry, 2: 64 bytes before it
	data     []byte
}

// put writes the next CQE. Preconditions: the ring has room.
func (d *device) put(c cqe) {
	n := uint32(len(d.cq) / d.cqeSize)
	e := d.cq[int(d.pi%n)*d.cqeSize:][:d.cqeSize]
	own := byte(d.pi / n & 1)
	d.pi++
	body := e[len(e)-64:]
	clear(e[:len(e)-1])
	be := binary.BigEndian
	if c.op == 13 || c.op == 14 {
		body[54], body[55] = c.vendor, c.syndrome
	} else {
		body[17] = c.path
		be.PutUint16(body[22:], c.slid)
		be.PutUint32(body[24:], c.rqpn)
		be.PutUint32(body[36:], c.imm)
		be.PutUint32(body[44:], c.bytes)
		be.PutUint64(body[48:], c.ts)
	}
	switch c.format {
	case 1:
		copy(body[:32], c.data)
	case 2:
		copy(e[:64], c.data)
	}
	be.PutUint32(body[32:], 0x80000001+d.pi) // user index, or SRQN in CQE version 0: nothing may depend on it
	be.PutUint32(body[56:], uint32(c.sendOp)<<24|c.qpn)
	be.PutUint16(body[60:], c.counter)
	body[63] = c.op<<4 | c.format<<2 | own
}

// sent writes the completion of the send WQE that begins at block counter.
func (d *device) sent(qpn uint32, op byte, counter uint16) {
	d.put(cqe{sendOp: op, qpn: qpn, counter: counter})
}

// got writes the completion of receive WQE counter.
func (d *device) got(qpn uint32, counter uint16, n uint32) {
	d.put(cqe{op: 2, qpn: qpn, counter: counter, bytes: n})
}

func (d *device) sendRecord() uint16 { return recordOf(d.t, d.db[4:]) }
func (d *device) recvRecord() uint16 { return recordOf(d.t, d.db) }

func recordOf(t testing.TB, b []byte) uint16 {
	v := binary.BigEndian.Uint32(b)
	if v>>16 != 0 {
		t.Errorf("doorbell record %#x: the high half is not 0", v)
	}
	return uint16(v)
}

func (d *device) consumed() uint32 { return binary.BigEndian.Uint32(d.cqdb) }

// wqe returns n bytes of the send ring from a block on, across its end.
func (d *device) wqe(block, n int) []byte {
	var b []byte
	for at := block * 64 % len(d.sq); len(b) < n; at = (at + 16) % len(d.sq) {
		b = append(b, d.sq[at:at+16]...)
	}
	return b[:n]
}

// parse decodes hex with comments.
func parse(t testing.TB, s string) []byte {
	t.Helper()
	var clean strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "//")
		clean.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(clean.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rows(b []byte) string {
	var s strings.Builder
	for i := 0; i < len(b); i += 16 {
		fmt.Fprintf(&s, "\t%3d: % x\n", i, b[i:min(i+16, len(b))])
	}
	return s.String()
}

func same(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got\n%s want\n%s", what, rows(got), rows(want))
	}
}

// poll returns n completions, and fails if there are more.
func poll(t testing.TB, cq *mlx5.CQ, n int) []mlx5.WC {
	t.Helper()
	wcs := make([]mlx5.WC, n+1)
	for i := range wcs {
		wcs[i] = mlx5.WC{ID: ^uint64(0), Status: ^uint32(0), Flags: ^uint32(0), ByteLen: ^uint32(0), Imm: ^uint32(0),
			InvalidatedRKey: ^uint32(0), Opcode: ^uint32(0)}
	}
	got, err := cq.Poll(wcs)
	if err != nil || got != n {
		t.Fatalf("poll gave %d completions, error %v; want %d", got, err, n)
	}
	return wcs[:n]
}
