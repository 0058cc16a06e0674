//go:build linux && amd64 && !race

package emu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// tagEnd is one end of a connection, or the SRQ's.
type tagEnd struct {
	t   *testing.T
	dev *ibv.Device
	pd  *ibv.PD
	cq  *ibv.CQ
	mr  *ibv.MR
	srq *ibv.SRQ
	qp  *ibv.QP
}

const (
	tagPlace = 1 << 16 // bytes of memory for each receive or tag
	tagMost  = 15      // tags in the list
	tagRecvs = 40
)

func tagMust[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newTagEnd(t *testing.T, name string, path ibv.DataPath, matching bool) *tagEnd {
	t.Helper()
	e := &tagEnd{t: t}
	e.dev = tagMust(ibv.Open(name))(t)
	e.pd = tagMust(e.dev.AllocPD())(t)
	o := &ibv.CQOptions{DataPath: path}
	if matching {
		o.Fields = ibv.FieldsStandard | ibv.FieldTMInfo
	}
	e.cq = tagMust(e.dev.CreateCQ(512, o))(t)
	e.mr = tagMust(e.pd.AllocMR(80*tagPlace, ibv.LocalWrite|ibv.RemoteRead, nil))(t)
	q := &ibv.QPOptions{}
	if matching {
		e.srq = tagMust(e.pd.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQTM, CQ: e.cq, MaxWR: 100, MaxTags: tagMost,
			MaxTagOps: 8}))(t)
		q.SRQ = e.srq
	}
	e.qp = tagMust(e.pd.CreateQP(e.cq, e.cq, q))(t)
	return e
}

func (e *tagEnd) close() {
	if e.srq == nil {
		e.check(e.qp.Close(), e.mr.Close(), e.cq.Close(), e.pd.Close(), e.dev.Close())
		return
	}
	e.check(e.qp.Close(), e.srq.Close(), e.mr.Close(), e.cq.Close(), e.pd.Close(), e.dev.Close())
}

func (e *tagEnd) check(errs ...error) {
	e.t.Helper()
	if err := errors.Join(errs...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *tagEnd) next() ibv.WCEx {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	var wc [1]ibv.WCEx
	n, err := e.cq.WaitEx(ctx, wc[:])
	if n != 1 || err != nil {
		e.t.Fatalf("%d completions, %v", n, err)
	}
	return wc[0]
}

func (e *tagEnd) post(op ibv.TagOp) ibv.TagOp {
	e.t.Helper()
	ops := []ibv.TagOp{op}
	if n, err := e.srq.PostTagOps(ops); n != 1 || err != nil {
		e.t.Fatalf("%+v: %d, %v", op, n, err)
	}
	return ops[0]
}

// tagEntry is a tag as the model knows it.
type tagEntry struct {
	op    ibv.TagOp
	place int
	size  int
	armed bool
}

// tagModel is a tag list by the rules of rdma-core's documentation. Unexpected messages are counted; tags that are
// added while the program has not heard of all of them match only after it has said so.
type tagModel struct {
	*tagEnd
	list     []tagEntry
	free     []int // places of tags
	recvs    []int // places of receives, the next first
	hw, sw   uint32
	lastSync uint32 // of a TagAdd
	id       uint64
}

func (m *tagModel) sync(count uint32) {
	if m.sw = count; m.sw == m.hw {
		for i := range m.list {
			m.list[i].armed = true
		}
	}
}

// want compares a completion.
func (m *tagModel) want(op ibv.WCOpcode, id uint64, flags ibv.WCFlags) ibv.WCEx {
	m.t.Helper()
	wc := m.next()
	if wc.Status != ibv.WCSuccess || wc.Opcode != op || wc.ID != id || wc.Flags != flags {
		m.t.Fatalf("%v %v ID %d flags %v, want %v ID %d flags %v", wc.Status, wc.Opcode, wc.ID, wc.Flags, op, id, flags)
	}
	return wc
}

func (m *tagModel) add(r *rand.Rand) {
	if len(m.list) == tagMost || len(m.free) == 0 {
		_, err := m.srq.PostTagOps([]ibv.TagOp{{Opcode: ibv.TagAdd}})
		if len(m.list) == tagMost && !errors.Is(err, ibv.ErrQueueFull) {
			m.t.Fatalf("%d tags, and another one: %v", len(m.list), err)
		}
		return
	}
	m.id++
	place := m.free[0]
	m.free = m.free[1:]
	op := ibv.TagOp{ID: m.id, Opcode: ibv.TagAdd, Signaled: true, RecvID: m.id << 40, Tag: r.Uint64N(6),
		Mask: []uint64{^uint64(0), 1, 0}[r.IntN(3)]}
	size := r.IntN(20000)
	if r.IntN(4) > 0 {
		size = tagPlace
	}
	if size > 0 {
		op.SGEs = []ibv.SGE{m.mr.SGE(place*tagPlace, size)}
	}
	if op.Sync = r.IntN(2) == 0; op.Sync {
		op.Unexpected = m.hw
		m.lastSync = m.hw
	}
	if op.Sync {
		m.sync(op.Unexpected)
	}
	m.list = append(m.list, tagEntry{m.post(op), place, size, m.sw == m.hw})
	var flags ibv.WCFlags
	if m.lastSync != m.hw {
		flags = ibv.WCTMSyncReq
	}
	m.want(ibv.WCTMAdd, m.id, flags)
}

func (m *tagModel) del(r *rand.Rand) {
	if len(m.list) == 0 {
		return
	}
	i := r.IntN(len(m.list))
	e := m.list[i]
	m.list = slices.Delete(m.list, i, i+1)
	m.free = append(m.free, e.place)
	m.id++
	m.post(ibv.TagOp{ID: m.id, Opcode: ibv.TagDel, Signaled: true, Handle: e.op.Handle})
	wc := m.next() // whether a sync is due depends on when the tag was added
	if wc.Status != ibv.WCSuccess || wc.Opcode != ibv.WCTMDel || wc.ID != m.id {
		m.t.Fatalf("%+v", wc)
	}
	_, err := m.srq.PostTagOps([]ibv.TagOp{{Opcode: ibv.TagDel, Signaled: true, Handle: e.op.Handle}})
	if err == nil || !strings.Contains(err.Error(), "Handle") {
		m.t.Fatalf("deleted again: %v", err)
	}
}

func (m *tagModel) refill() {
	for len(m.recvs) < tagRecvs {
		place := 40
		for slices.Contains(m.recvs, place) {
			place++
		}
		if n, err := m.srq.PostRecv([]ibv.RecvWR{{ID: uint64(place), SGEs: []ibv.SGE{m.mr.SGE(place*tagPlace,
			tagPlace)}}}); n != 1 || err != nil {
			m.t.Fatal(n, err)
		}
		m.recvs = append(m.recvs, place)
	}
}

func (m *tagModel) at(place, n int) []byte { return m.mr.Bytes()[place*tagPlace:][:n] }

// message has the peer send a message, and looks at what comes of it on both ends.
func (m *tagModel) message(r *rand.Rand, a *tagEnd) {
	op := []byte{0, 1, 3, 3, 3}[r.IntN(5)]
	n := []int{r.IntN(64), r.IntN(3000), r.IntN(tagPlace - 64)}[r.IntN(3)]
	tag, priv := r.Uint64N(6), r.Uint32()
	i := slices.IndexFunc(m.list, func(e tagEntry) bool { return e.armed && (e.op.Tag^tag)&e.op.Mask == 0 })
	if op == 3 && i >= 0 {
		n = min(n, m.list[i].size) // one that is too long breaks the connection
	}
	if i >= 0 {
		clear(m.at(m.list[i].place, tagPlace))
	}
	msg := a.mr.Bytes()[:16]
	clear(msg)
	msg[0] = op
	binary.BigEndian.PutUint32(msg[4:], priv)
	binary.BigEndian.PutUint64(msg[8:], tag)
	payload := a.mr.Bytes()[64:][:n]
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	if op == 1 { // rendezvous: the payload stays where it is
		msg = a.mr.Bytes()[:32]
		rm := a.mr.Remote()
		binary.BigEndian.PutUint64(msg[16:], rm.Addr+64)
		binary.BigEndian.PutUint32(msg[24:], rm.RKey)
		binary.BigEndian.PutUint32(msg[28:], uint32(n))
		if k, err := a.qp.PostRecv([]ibv.RecvWR{{ID: 9, SGEs: []ibv.SGE{a.mr.SGE(tagPlace, 64)}}}); k != 1 {
			m.t.Fatal(err)
		}
	} else {
		payload = bytes.Clone(payload)
		msg = a.mr.Bytes()[:16+n]
		copy(msg[16:], payload)
	}
	msg = bytes.Clone(msg)
	sge := a.mr.SGE(0, len(msg))
	if k, err := a.qp.PostSend([]ibv.SendWR{{ID: 8, Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{sge}}}); k != 1 {
		m.t.Fatal(err)
	}
	if wc := a.next(); wc.Status != ibv.WCSuccess || wc.ID != 8 {
		m.t.Fatalf("%+v", wc)
	}
	defer func() {
		if op == 1 { // the sender hears that its memory was read, or posts the receive for nothing
			fin := bytes.Clone(msg)
			fin[0] = 2
			if wc := a.next(); wc.Status != ibv.WCSuccess || wc.ID != 9 || !bytes.Equal(a.mr.Bytes()[tagPlace:][:32], fin) {
				m.t.Fatalf("%+v, %x", wc, a.mr.Bytes()[tagPlace:][:32])
			}
		}
	}()
	if op == 0 || i < 0 {
		place := m.recvs[0]
		m.recvs = m.recvs[1:]
		kind := ibv.WCTMNoTag
		if op != 0 {
			kind = ibv.WCTMRecv
			m.hw++
		}
		wc := m.want(kind, uint64(place), 0)
		if got := m.at(place, len(msg)); int(wc.ByteLen) != len(msg) || !bytes.Equal(got, msg) {
			m.t.Fatalf("unexpected message: %d bytes of %d: %x, want %x", wc.ByteLen, len(msg), got, msg)
		}
		m.info(wc, 0, 0) // the header is in the message
		m.refill()
		if op == 1 { // by hand
			finish := m.mr.Bytes()[:32]
			copy(finish, msg)
			finish[0] = 2
			m.answer(finish)
		}
		return
	}
	e := m.list[i]
	m.list = slices.Delete(m.list, i, i+1)
	m.free = append(m.free, e.place)
	switch {
	case op == 1 && n > e.size:
		if wc := m.next(); wc.Status != ibv.WCTMRndvIncomplete || wc.ID != e.op.RecvID {
			m.t.Fatalf("%+v", wc)
		}
		if k := min(e.size, 32); !bytes.Equal(m.at(e.place, k), msg[:k]) {
			m.t.Fatalf("header of a message that is too large: %x, want %x", m.at(e.place, k), msg[:k])
		}
		finish := m.mr.Bytes()[:32]
		copy(finish, msg)
		finish[0] = 2
		m.answer(finish)
		return
	case op == 1 || len(msg) > 1024:
		m.info(m.want(ibv.WCTMRecv, e.op.RecvID, ibv.WCTMMatch), tag, priv)
		m.want(ibv.WCTMRecv, e.op.RecvID, ibv.WCTMDataValid)
	default:
		wc := m.want(ibv.WCTMRecv, e.op.RecvID, ibv.WCTMMatch|ibv.WCTMDataValid)
		m.info(wc, tag, priv)
		if int(wc.ByteLen) != n {
			m.t.Fatalf("%d bytes of %d", wc.ByteLen, n)
		}
	}
	if got := m.at(e.place, n); !bytes.Equal(got, payload) || n < e.size && m.at(e.place, n+1)[n] != 0 {
		m.t.Fatalf("%d bytes of payload differ", n)
	}
}

func (m *tagModel) info(wc ibv.WCEx, tag uint64, priv uint32) {
	m.t.Helper()
	if wc.TM != (ibv.TMInfo{Tag: tag, Priv: priv}) {
		m.t.Fatalf("%+v, want tag %#x, data %#x", wc.TM, tag, priv)
	}
}

// answer ends a rendezvous by hand.
func (m *tagModel) answer(b []byte) {
	if k, err := m.qp.PostSend([]ibv.SendWR{{ID: 7, Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{m.mr.SGE(0, len(b))}}}); k != 1 {
		m.t.Fatal(err)
	}
	m.want(ibv.WCSend, 7, 0)
}

var ibTwo = []string{"--strict", "--device", "mlx5_0,link=ib,mtu=1024", "--device", "mlx5_1,link=ib,mtu=1024"}

// TestEmuTagMatching runs random operations on the tag list of an SRQ, and messages to it, from a peer of either data
// path, and compares all completions, all data and all refusals with a model.
func TestEmuTagMatching(t *testing.T) {
	testutil.NeedEmu(t)
	if !inside(t, ibTwo...) {
		return
	}
	steps := 1500
	if testutil.Full() {
		steps = 30000
	}
	for _, path := range []ibv.DataPath{ibv.DataPathDirect, ibv.DataPathOps} {
		r := rand.New(rand.NewPCG(1, uint64(path)))
		a := newTagEnd(t, "mlx5_0", path, false)
		b := newTagEnd(t, "mlx5_1", ibv.DataPathOps, true)
		ea, eb := tagMust(a.qp.Endpoint(1, 0))(t), tagMust(b.qp.Endpoint(1, 0))(t)
		a.check(a.qp.Connect(eb, nil), b.qp.Connect(ea, nil))
		m := &tagModel{tagEnd: b}
		for i := range tagMost + 2 {
			m.free = append(m.free, 1+i)
		}
		m.refill()
		for range steps {
			switch r.IntN(8) {
			case 0, 1, 2:
				m.add(r)
			case 3:
				m.del(r)
			case 4:
				m.id++
				m.post(ibv.TagOp{ID: m.id, Opcode: ibv.TagSync, Signaled: true, Unexpected: m.hw})
				m.sync(m.hw)
				m.want(ibv.WCTMSync, m.id, 0)
			default:
				m.message(r, a)
			}
		}
		a.close()
		b.close()
	}
}
