package mlx5_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/work"
)

// source turns bytes into choices. It ends when they do.
type source struct{ data []byte }

func (s *source) next() int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b)
}

func (s *source) n(limit int) int { return s.next() % limit }

// want is a work request as the device must see it.
type want struct {
	id     uint64
	at     uint32 // its first block
	end    uint32
	opcode byte
	bytes  []byte
	op     int

	form    mlx5.Form // of the model's log, as the outcome
	outcome mlx5.Outcome
}

// model is a send queue as the PRM describes it, with the results that a poster may expect.
type model struct {
	t      testing.TB
	d      *device
	q      *mlx5.QP
	cq     *mlx5.CQ
	src    source
	mem    []byte
	maxWR  int
	blocks uint32
	bf     int

	id        uint64
	all       []want // not known to be completed
	cur       uint32 // next block
	done      uint32 // first block that is not known to be completed
	announced int    // of all
	small     bool   // the next one carries the small fence
	half      int

	log  []want // all that were built and not discarded
	high uint32 // cur as it was at most
}

var wireOps = [...]byte{0x08, 0x09, 0x0a, 0x0b, 0x10, 0x11, 0x12, 0x25, 0x25, 0x01}

// add records a work request that was built. segs are its segments after the control segment.
func (m *model) add(op, flags int, imm uint32, segs []byte) {
	fm := []byte{0, 0x80, 0x08, 0x88, 0x02, 0x82, 0x0a, 0x8a}[flags]
	if m.small && flags&fence == 0 {
		fm |= 0x20
	}
	ds := (16 + len(segs) + 15) / 16
	b := binary.BigEndian.AppendUint32(nil, m.cur<<8&0xffff00|uint32(wireOps[op]))
	b = binary.BigEndian.AppendUint32(b, qpn<<8|uint32(ds))
	b = append(b, 0, 0, 0, fm)
	b = binary.BigEndian.AppendUint32(b, imm)
	w := want{m.id, m.cur, m.cur + uint32(ds+3)/4, wireOps[op], append(b, segs...), op, 0, mlx5.Pending}
	m.all = append(m.all, w)
	m.log = append(m.log, w)
	m.cur = w.end
	m.high = max(m.high, m.cur)
	m.id++
	m.small = op == wrLocalInv || op == wrBindMW
}

// room reports whether a queue must have room for a work request of this many segments, the control segment included.
func (m *model) room(segs int) bool {
	return len(m.all) < m.maxWR && m.cur-m.done+uint32(segs+3)/4 <= m.blocks
}

func (m *model) took(what string, ok, room bool) bool {
	if ok != room {
		m.t.Fatalf("%s: took it: %v, want %v; %d work requests in %d blocks are outstanding", what, ok, room,
			len(m.all), m.cur-m.done)
	}
	return ok
}

func segRemote(r *mlx5.RemoteAddr) []byte {
	b := binary.BigEndian.AppendUint64(nil, r.Addr)
	return append(binary.BigEndian.AppendUint32(b, r.RKey), 0, 0, 0, 0)
}

func segData(sges ...mlx5.SGE) []byte {
	var b []byte
	for _, s := range sges {
		if s.Length == 0 {
			continue
		}
		b = binary.BigEndian.AppendUint32(b, s.Length)
		b = binary.BigEndian.AppendUint32(b, s.LKey)
		b = binary.BigEndian.AppendUint64(b, s.Addr)
	}
	return b
}

func segInline(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))|1<<31), data...)
}

func (m *model) sge() mlx5.SGE {
	return mlx5.SGE{Addr: 1<<40 + uint64(m.src.next())<<32, Length: uint32(m.src.n(4)) << 10,
		LKey: uint32(m.src.next())}
}

func (m *model) sges(n int) []mlx5.SGE {
	var s []mlx5.SGE
	for range n {
		s = append(s, m.sge())
	}
	return s
}

func (m *model) remote() *mlx5.RemoteAddr {
	return &mlx5.RemoteAddr{Addr: uint64(m.src.next()) * 0x0101010101010101, RKey: uint32(m.src.next()) << 8}
}

// post builds one work request in one of the ways that the package has.
func (m *model) post() {
	q, src := &m.q.SQ, &m.src
	flags := src.n(8)
	switch src.n(10) {
	case 0:
		op := []int{wrWrite, wrWriteImm, wrRead}[src.n(3)]
		r, s, imm := m.remote(), m.sge(), uint32(src.next())
		if m.took("RDMA", q.RDMA(m.id, uint32(op), uint32(flags), imm, r, &s), m.room(3)) {
			m.add(op, flags, imm, append(segRemote(r), segData(s)...))
		}
	case 1:
		op := []int{wrSend, wrSendImm, wrSendInv}[src.n(3)]
		s, imm := m.sge(), uint32(src.next())
		if m.took("Send", q.Send(m.id, uint32(op), uint32(flags), imm, &s), m.room(2)) {
			m.add(op, flags, imm, segData(s))
		}
	case 2:
		s, r := m.sges(src.n(30)), m.remote()
		if !m.took("Begin", q.Begin(wrWrite, uint32(flags), 0, 1+len(s)), m.room(2+len(s))) {
			return
		}
		q.Remote(r.Addr, r.RKey)
		for i := range s {
			q.Data(&s[i])
		}
		q.Commit(m.id)
		m.add(wrWrite, flags, 0, append(segRemote(r), segData(s...)...))
	case 3:
		op := wrCS + src.n(2)
		s, r, a, b := mlx5.SGE{Addr: 5, Length: uint32(1 + src.next()), LKey: 7}, m.remote(), uint64(src.next())<<50,
			uint64(src.next())
		if !m.took("Begin", q.Begin(uint32(op), uint32(flags), 0, 3), m.room(4)) {
			return
		}
		q.Remote(r.Addr, r.RKey)
		q.Atomic(a, b)
		q.Data(&s)
		q.Commit(m.id)
		s.Length = 8
		segs := binary.BigEndian.AppendUint64(segRemote(r), a)
		m.add(op, flags, 0, append(binary.BigEndian.AppendUint64(segs, b), segData(s)...))
	case 4:
		data := m.mem[src.next():][:src.next()*2]
		if !m.took("Begin", q.Begin(wrSend, uint32(flags), 0, mlx5.InlineSegs(len(data))),
			m.room((len(segInline(data))+31)/16)) {
			return
		}
		q.Inline(data)
		q.Commit(m.id)
		m.add(wrSend, flags, 0, segInline(data))
	case 5:
		var s []mlx5.SGE
		var data []byte
		for range src.n(6) {
			p := m.mem[src.next():][:src.n(100)]
			s = append(s, mlx5.SGE{Addr: addr(p), Length: uint32(len(p))})
			data = append(data, p...)
		}
		if !m.took("Begin", q.Begin(wrSendImm, uint32(flags), 9, mlx5.InlineSegs(len(data))),
			m.room((len(segInline(data))+31)/16)) {
			return
		}
		q.InlineFrom(s, len(data))
		q.Commit(m.id)
		m.add(wrSendImm, flags, 9, segInline(data))
	case 6:
		a, s := av(), m.sges(src.n(4))
		if !m.took("Begin", q.Begin(wrSend, uint32(flags), 0, 3+len(s)), m.room(4+len(s))) {
			return
		}
		q.To(unsafe.Pointer(&a[0]), 0x123456, 0x789)
		for i := range s {
			q.Data(&s[i])
		}
		q.Commit(m.id)
		binary.BigEndian.PutUint32(a, 0x789)
		binary.BigEndian.PutUint32(a[8:], 0x80123456)
		m.add(wrSend, flags, 0, append(a, segData(s...)...))
		m.log[len(m.log)-1].form = mlx5.FormDatagram
	case 7:
		key := uint32(src.next())
		if m.took("LocalInv", q.LocalInv(m.id, uint32(flags), key), m.room(8)) {
			segs := make([]byte, 112)
			segs[0] = 0x98
			copy(segs[8:], []byte{0, 0, 0, 0, 0x20, 0, 0x60, 0})
			copy(segs[48:], []byte{0x40, 0, 0, 0, 0xff, 0xff, 0xff, 0})
			m.add(wrLocalInv, flags, key, segs)
		}
	case 8:
		b := &work.Bind{Type: uint32(1 + src.n(2)), Key: uint32(src.next()), NewKey: uint32(src.next()), LKey: 9,
			Addr: 10}
		key, qp, check, mask := byte(b.NewKey), []byte{0xff, 0xff, 0xff}, byte(0), byte(0x20)
		segs := make([]byte, 112)
		segs[48] = 0x40
		if src.n(3) > 0 {
			b.Length = uint64(1 + src.next())
			segs = make([]byte, 176)
			copy(segs[4:], []byte{0, 4, 0, 0, 0, 0, 0, 0, 0x20, 0x3c, 0, 0x41})
			segs[79], segs[71] = byte(b.Length), 10
			segs[78] = byte(b.Length >> 8)
			binary.BigEndian.PutUint32(segs[112:], uint32(b.Length))
			segs[119], segs[127] = 9, 10
			check = 0x20
		}
		segs[0] = 0x90
		if b.Type == 2 {
			mask = 0x60
			if check != 0 {
				qp = []byte{qpn >> 16, qpn >> 8 & 0xff, qpn & 0xff}
			} else {
				check = 8
			}
			segs[0] |= check
		}
		segs[12], segs[14] = 0x20, mask
		copy(segs[52:], append(qp, key))
		if m.took("Bind", q.Bind(m.id, uint32(flags), b), m.room(1+len(segs)/16)) {
			m.add(wrBindMW, flags, b.Key, segs)
		}
	case 9: // begun and left
		if q.Begin(wrSend, uint32(flags), 0, 3) {
			q.Inline(m.mem[:40])
		}
	}
}

const (
	simpleOps = 1<<wrWrite | 1<<wrWriteImm | 1<<wrRead | 1<<wrSend | 1<<wrSendImm | 1<<wrSendInv
	maxInline = 40
)

// requests returns work requests as users post them, mostly alike.
func (m *model) requests() []mlx5.SendWR {
	src := &m.src
	wrs := make([]mlx5.SendWR, 1+src.n(12))
	for i := range wrs {
		wr := &wrs[i]
		if i > 0 && src.n(4) != 0 {
			*wr = wrs[i-1]
			continue
		}
		*wr = mlx5.SendWR{Opcode: uint32(src.n(11)), Flags: uint32(src.n(9)), Remote: *m.remote(),
			Imm: uint32(src.next()), InvalidateRKey: uint32(src.next())}
		switch src.n(8) {
		case 0:
			wr.SGEs = m.sges(src.n(3))
			wr.AH = (*work.Theirs)(unsafe.Pointer(unsafe.SliceData(m.mem)))
		case 1, 2:
			wr.Inline = m.mem[src.next():][:src.n(64)]
		case 3:
			wr.SGEs = m.sges(src.n(3))
		default:
			wr.SGEs = m.sges(1)
		}
	}
	return wrs
}

// simple returns the segments of a work request that Build covers.
func (m *model) simple(wr *mlx5.SendWR) (segs []byte, imm uint32, ok bool) {
	if wr.Opcode > 10 || simpleOps>>wr.Opcode&1 == 0 || wr.Flags > 7 || wr.AH != nil || m.small {
		return nil, 0, false
	}
	switch wr.Opcode {
	case wrWrite, wrWriteImm, wrRead:
		segs = segRemote(&wr.Remote)
	}
	switch wr.Opcode {
	case wrWriteImm, wrSendImm:
		imm = wr.Imm
	case wrSendInv:
		imm = wr.InvalidateRKey
	}
	if wr.Inline != nil {
		ok = wr.Opcode != wrRead && len(wr.SGEs) == 0 && len(wr.Inline) > 0 && len(wr.Inline) <= maxInline &&
			len(segs)+4+len(wr.Inline) <= 48
		return append(segs, segInline(wr.Inline)...), imm, ok
	}
	return append(segs, segData(wr.SGEs...)...), imm, len(wr.SGEs) == 1 && wr.SGEs[0].Length > 0
}

func (m *model) build() {
	wrs := m.requests()
	id, k := m.id, 0
	for i := range wrs {
		wrs[i].ID = id + uint64(i)
	}
	n := m.q.SQ.BuildOf(wrs, simpleOps, maxInline)
	for ; k < len(wrs); k++ {
		segs, imm, ok := m.simple(&wrs[k])
		if !ok || !m.room((16+len(segs)+15)/16) {
			break
		}
		m.add(int(wrs[k].Opcode), int(wrs[k].Flags), imm, segs)
	}
	if n != k {
		m.t.Fatalf("Build took %d of %d, want %d", n, len(wrs), k)
	}
}

func (m *model) briefs() {
	wrs := m.requests()
	list := make([]work.Brief, len(wrs))
	id, k := m.id, 0
	for i := range wrs {
		wr := &wrs[i]
		wr.InvalidateRKey = wr.Imm
		list[i] = work.Brief{ID: id + uint64(i), Opcode: wr.Opcode, Flags: wr.Flags, Remote: wr.Remote, Imm: wr.Imm}
		if len(wr.SGEs) == 1 && wr.AH == nil {
			list[i].SGE[0] = wr.SGEs[0]
		} else {
			wr.SGEs = nil
		}
	}
	n := m.q.SQ.PostBriefsOf(list, simpleOps)
	for ; k < len(wrs); k++ {
		segs, imm, ok := m.simple(&wrs[k])
		if !ok || wrs[k].Inline != nil || !m.room((16+len(segs)+15)/16) {
			break
		}
		m.add(int(wrs[k].Opcode), int(wrs[k].Flags), imm, segs)
	}
	if n != k {
		m.t.Fatalf("PostBriefs took %d of %d, want %d", n, len(wrs), k)
	}
	if k == len(wrs) {
		m.rang(len(m.all)-m.announced == 1)
	}
}

func (m *model) postOne() {
	wr := m.requests()[0]
	wr.ID = m.id
	segs, imm, ok := m.simple(&wr)
	before := bytes.Clone(m.d.uar)
	if m.took("PostOne", m.q.SQ.PostOne(&wr, simpleOps, maxInline), ok && m.bf == 0 && m.room(3)) {
		m.add(int(wr.Opcode), int(wr.Flags), imm, segs)
		m.rang(true)
	} else {
		same(m.t, "registers", m.d.uar, before)
	}
}

// rang checks that the device was told about everything that was built.
func (m *model) rang(one bool) {
	last := m.all[len(m.all)-1]
	reg := m.d.uar[0x800+m.half:]
	if got := m.d.sendRecord(); got != uint16(m.cur) {
		m.t.Fatalf("doorbell record %d, want %d", got, m.cur)
	}
	told := last.bytes[:8]
	if one && m.bf != 0 && len(last.bytes) > 16 && (len(last.bytes)+15)/16*16 <= m.bf {
		told = last.bytes
	}
	if !bytes.Equal(reg[:len(told)], told) {
		same(m.t, "register", reg[:len(told)], told)
	}
	m.half ^= m.bf
	m.announced = len(m.all)
}

func (m *model) ring() {
	n := len(m.all) - m.announced
	before := bytes.Clone(m.d.uar)
	m.q.SQ.Ring()
	if n == 0 {
		same(m.t, "registers", m.d.uar, before)
		return
	}
	m.rang(n == 1)
}

// complete completes a work request that the device was told about, and with it all earlier ones.
func (m *model) complete() {
	if m.announced == 0 {
		return
	}
	k := m.src.n(m.announced)
	w := m.all[k]
	c := cqe{sendOp: w.opcode, qpn: qpn, counter: uint16(w.at)}
	done := m.log[len(m.log)-len(m.all):][:k+1]
	for i := range done {
		done[i].outcome = mlx5.Completed
	}
	if m.src.n(8) == 0 {
		c.op, c.syndrome = 13, 5
		done[k].outcome = mlx5.Flushed
		if k%2 == 0 {
			c.syndrome, c.vendor = 0x13, 0x88
			done[k].outcome = mlx5.Failed
		}
	}
	m.d.put(c)
	if wc := poll(m.t, m.cq, 1)[0]; wc.ID != w.id {
		m.t.Fatalf("completion of work request %d, want %d", wc.ID, w.id)
	} else if w.opcode == 0x25 && c.op == 0 && (wc.Opcode == wcBind) != (w.op == wrBindMW) {
		m.t.Fatalf("a UMR completed as opcode %d", wc.Opcode)
	}
	m.all, m.done, m.announced = m.all[k+1:], w.end, m.announced-k-1
	if got := m.q.SQ.Outstanding(); int(got) != len(m.all) {
		m.t.Fatalf("%d outstanding, want %d", got, len(m.all))
	}
}

func (m *model) rollback() {
	before := *m
	mark := m.q.SQ.Mark()
	for range m.src.n(4) {
		m.post()
		if m.src.n(2) == 0 {
			m.build()
		}
	}
	if got := m.q.SQ.Since(mark); got != len(m.all)-len(before.all) {
		m.t.Fatalf("%d work requests since the mark, want %d", got, len(m.all)-len(before.all))
	}
	if m.src.n(2) == 0 {
		return // it stays
	}
	m.q.SQ.Rollback(mark)
	if len(m.all) < m.maxWR && m.cur-m.done < m.blocks { // something may have been written there
		m.high = max(m.high, m.cur+1)
	}
	m.log = m.log[:len(before.log)]
	m.all, m.cur, m.small, m.id = m.all[:len(before.all)], before.cur, before.small, before.id
}

// posts runs a random program on a send queue and compares each byte of the queue with the model.
func posts(t testing.TB, d *device, mem, data []byte) {
	m := &model{t: t, d: d, mem: mem, src: source{data}}
	d.t = t
	m.blocks = uint32(len(d.sq) / 64)
	clear(d.db)
	clear(d.uar)
	for i := range len(d.cq) / 64 {
		clear(d.cq[i*64:][:64])
		d.cq[i*64+63] = 0xf0
	}
	d.pi = 0
	c := d.sqConfig()
	mode := m.src.next()
	m.maxWR = 1 + mode>>2*int(m.blocks)/64
	c.MaxWR = uint32(m.maxWR)
	if mode&1 != 0 {
		m.bf = 256
		c.BlueFlame = 256
	}
	m.q = mlx5.NewQP(qpn, true, c, nil, nil)
	tab := new(mlx5.Table)
	tab.Add(m.q)
	m.cq = d.newCQ(tab)
	for len(m.src.data) > 0 {
		switch m.src.n(16) {
		case 0, 1, 2, 3:
			m.post()
		case 4:
			m.build()
		case 5:
			m.briefs()
		case 6:
			m.postOne()
		case 7:
			m.rollback()
		case 8, 9, 10:
			m.ring()
		default:
			m.complete()
		}
		for _, w := range m.all {
			if got := d.wqe(int(w.at%m.blocks), len(w.bytes)); !bytes.Equal(got, w.bytes) {
				same(t, "wqe", got, w.bytes)
				t.FailNow()
			}
		}
		m.remembers(m.src.n(20))
	}
	m.remembers(1 << 20)
}

// remembers compares the last n work requests that the ring has with those of the log.
func (m *model) remembers(n int) {
	log := m.log[max(len(m.log)-n, 0):]
	for len(log) > 0 && (m.high-log[0].at > m.blocks || m.cur-log[0].at == m.blocks) { // overwritten, or soon
		log = log[1:]
	}
	got, to := m.q.LastSends(mlx5.FormConnected, n), m.q.LastSends(mlx5.FormDatagram, n)
	if len(got) != len(log) {
		m.t.Fatalf("the ring has %d work requests, want %d of %d", len(got), len(log), len(m.log))
	}
	errors := 0 // later ones
	for i := len(got) - 1; i >= 0; i-- {
		s, w := &got[i], &log[i]
		if w.form == mlx5.FormDatagram {
			s = &to[i]
		}
		if w.outcome == mlx5.Failed || w.outcome == mlx5.Flushed {
			errors++
		}
		if s.ID != w.id || s.Index != uint16(w.at) || s.Device != w.opcode || s.QPN != qpn || s.Damaged || s.Short ||
			s.Outcome != w.outcome && (s.Outcome != mlx5.Unknown || errors < 2) ||
			s.Outcome == mlx5.Failed && (s.Status != 10 || s.VendorErr != 0x88) {
			m.t.Fatalf("work request %d of %d: %+v, want %+v", i, len(got), s, w)
		}
		if w.opcode == 0x25 {
			if want := uint32(w.op); s.Opcode != want {
				m.t.Fatalf("a UMR of opcode %d: %+v", want, s)
			}
			continue
		}
		segs := segData(s.SGEs...)
		if s.InlineLen > 0 {
			at := len(w.bytes) - int(s.InlineLen)
			segs = segInline(w.bytes[at:])
		}
		switch w.op {
		case wrCS:
			segs = slices.Concat(binary.BigEndian.AppendUint64(nil, s.Swap),
				binary.BigEndian.AppendUint64(nil, s.CompareAdd), segs)
		case wrFA:
			segs = slices.Concat(binary.BigEndian.AppendUint64(nil, s.CompareAdd), w.bytes[40:48], segs)
		}
		switch {
		case w.form == mlx5.FormDatagram:
			a := av()
			binary.BigEndian.PutUint32(a, s.RemoteQKey)
			binary.BigEndian.PutUint32(a[8:], s.RemoteQPN|1<<31)
			segs = append(a, segs...)
		case w.op != wrSend && w.op != wrSendImm && w.op != wrSendInv:
			segs = append(segRemote(&s.Remote), segs...)
		}
		if !bytes.Equal(segs, w.bytes[16:]) {
			same(m.t, "segments that were read", segs, w.bytes[16:])
			m.t.Fatalf("%+v", s)
		}
	}
}

func TestRandomPosts(t *testing.T) {
	mem := alloc(t, 4096)
	for i := range mem {
		mem[i] = byte(i * 31)
	}
	r := rand.NewChaCha8([32]byte{7})
	data := make([]byte, 1500)
	for _, blocks := range []int{1, 2, 8, 64} {
		d := newDevice(t, size{blocks: blocks, cqes: 64, cqeSize: 64})
		for range 150 {
			r.Read(data)
			posts(t, d, mem, data)
		}
	}
}

// Both functions cover inline data up to the QP's limit and to the end of the block.
func TestShortInline(t *testing.T) {
	d := newDevice(t, size{blocks: 2})
	for _, op := range []uint32{wrSend, wrWrite} {
		for limit := range 70 {
			for n := range 70 {
				q := mlx5.NewQP(qpn, true, d.sqConfig(), nil, nil)
				clear(d.sq)
				wr := mlx5.SendWR{Opcode: op, Inline: counted(n), Remote: *remote}
				head := 16
				if op == wrWrite {
					head = 32
				}
				want := n > 0 && n <= limit && head+4+n <= 64
				if q.SQ.PostOne(&wr, simpleOps, limit) != want ||
					(q.SQ.BuildOf([]mlx5.SendWR{wr}, simpleOps, limit) == 1) != want {
					t.Fatalf("opcode %d, %d bytes, limit %d: want %v", op, n, limit, want)
				}
				for i := range 2 {
					if b := d.wqe(i, 64); want && !bytes.Equal(b[head+4:][:n], counted(n)) {
						t.Fatalf("opcode %d, %d bytes: wqe %x", op, n, b)
					}
				}
			}
		}
	}
}

// FuzzPost posts, rings and completes as the bytes say. Each WQE must be the model's, and no other memory may change.
func FuzzPost(f *testing.F) {
	mem := alloc(f, 4096)
	d := newDevice(f, size{blocks: 16, cqes: 64, cqeSize: 64})
	r := rand.NewChaCha8([32]byte{8})
	for i := range 8 {
		data := make([]byte, 50<<i)
		r.Read(data)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { posts(t, d, mem, data) })
}
