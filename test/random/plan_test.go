//go:build linux

package random

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pureverbs/pureverbs/ibv"
)

// kind says what happens to a link in a round.
type kind uint8

const (
	normal      kind = iota
	badRKey          // an access by a key that is none
	outOfRange       // an access beyond the peer's memory
	misaligned       // an atomic that is not at a multiple of 8
	badInv           // the invalidation of a key that is no window's
	noRecv           // a send without receive, and no retries
	badLKey          // a send from memory of a key that is none
	shortRecv        // a send that is longer than the receive
	badRecvKey       // a send to a receive of a key that is none
	peerGone         // a request that nobody answers
	toErr            // the program moves the QP to ERR, receives outstanding
	pendingRecv      // the receiving end is destroyed with completions unpolled
	pendingSend      // and here the sending end
	kinds            // of a work request: it is flushed
)

func (k kind) String() string {
	return [...]string{"normal", "badRKey", "outOfRange", "misaligned", "badInv", "noRecv", "badLKey", "shortRecv",
		"badRecvKey", "peerGone", "toErr", "pendingRecv",
		"pendingSend", "flushed"}[k]
}

// effect is the effect of a kind on the two ends.
type effect struct {
	status   ibv.WCStatus // of the failed send
	own      ibv.WCStatus // of the receive that it meets
	peerErrs bool
	event    ibv.AsyncEventType
	rxe      bool // the same there
}

var effects = [kinds]effect{
	badRKey:    {status: ibv.WCRemAccessErr, peerErrs: true, event: ibv.EventQPAccessErr, rxe: true},
	outOfRange: {status: ibv.WCRemAccessErr, peerErrs: true, event: ibv.EventQPAccessErr, rxe: true},
	misaligned: {status: ibv.WCRemInvReqErr, peerErrs: true, event: ibv.EventQPReqErr},
	badInv:     {status: ibv.WCRemAccessErr, peerErrs: true, event: ibv.EventQPAccessErr},
	noRecv:     {status: ibv.WCRNRRetryExcErr, rxe: true},
	badLKey:    {status: ibv.WCLocProtErr},
	shortRecv:  {status: ibv.WCRemInvReqErr, own: ibv.WCLocLenErr, peerErrs: true},
	badRecvKey: {status: ibv.WCRemOpErr, own: ibv.WCLocProtErr, peerErrs: true},
	peerGone:   {status: ibv.WCRetryExcErr},
}

// piece is a range of an end's memory.
type piece struct{ off, n int }

// op is a send work request.
type op struct {
	id        uint64
	code      ibv.Opcode
	flags     ibv.SendFlags
	from      []piece // in the case of a read or an atomic, where to
	n         int
	inline    bool // as bytes; with the flag Inline as SGEs
	data      []byte
	at        int // in the peer's memory
	imm       uint32
	add, swap uint64
	masked    *ibv.MaskedAtomic
	to        int // link, for UD and DC
	stream    uint16
	bad       kind
	consumes  bool
}

func (o *op) String() string {
	from := fmt.Sprint(o.from)
	if len(o.from) > 4 {
		from = fmt.Sprintf("%d pieces", len(o.from))
	}
	return fmt.Sprintf("%#x %v %v %d bytes of %s inline %v at %#x imm %#x to %d bad %v", o.id, o.code, o.flags, o.n,
		from, o.inline, o.at, o.imm, o.to, o.bad)
}

// the ways to post a chunk
type how uint8

const (
	byPostSend how = iota
	byOne
	byBatch
	byBatchAfterDiscard
	byPostWithBad // a work request that cannot be follows
	hows
)

// chunk is a list of work requests that are posted together.
type chunk struct {
	link int
	ops  []*op
	how  how
}

// rbuf is a receive buffer.
type rbuf struct {
	id     uint64
	pieces []piece
	slot   int
	bad    bool
}

// rpost is the posting of receives.
type rpost struct {
	link int // -1 for the SRQ
	bufs []*rbuf
	late bool
}

// sent is an expected completion of a send queue.
type sent struct {
	id     uint64
	status ibv.WCStatus
	opcode ibv.WCOpcode
	n      int // of reads and atomics, -1 for others
	flags  ibv.WCFlags
}

// message is an expected message at a receive queue.
type message struct {
	status ibv.WCStatus
	opcode ibv.WCOpcode
	n      int
	data   []byte // nil for a write
	imm    uint32
	hasImm bool
	sol    bool // asks for an event
}

// fate is what one end of a link must see in a round.
type fate struct {
	sent    []sent
	msgs    map[int][]message // by the sending link; UD alone has several
	flushed int               // receives, after the messages
	skip    bool              // receive completions stay in the CQ
	skipSQ  bool
	events  []ibv.AsyncEventType
	renew   bool // afterwards: by reset, or a new one
	rebuild bool
	failed  uint16 // stream of a DCI
	stream  bool   // only that
	from    int    // the link that the messages come by
	toErr   bool
	goneBy  bool // reset before the peer sends
}

// scribble is a change of the memory that an end sends from.
type scribble struct {
	link, off, n int
	seed         uint64
}

// round holds the operations of all links of a group between two comparisons of memory.
type round struct {
	scribbles [2][]scribble
	recvs     [2][]rpost
	chunks    [2][]chunk
	limit     [2]int // of the SRQ; 0 for none
	fires     [2]bool
	kinds     []kind
	to        []int // for each link the one whose far ends its ends address; of DC alone another one
	fates     [][2]*fate
	srqUsed   [2]int
	arms      [2][]arming // by group.cqs
	ops       int
}

// arming says how a CQ is armed before any completion comes.
type arming uint8

const (
	armNot arming = iota
	armAny
	armSolicited
)

// cqs are the places of an end's CQs: of sends, of receives, and of what link i receives at 2+i.
func (g *group) cqs() int { return 2 + len(g.links) }

// recvCQ returns the place of the CQ that has the receives of link i.
func (g *group) recvCQ(i int) int {
	switch {
	case g.links[i].ownCQ():
		return 2 + i
	case g.split:
		return 1
	}
	return 0
}

// has reports whether an end has a CQ at a place.
func (g *group) has(cq int) bool {
	if cq < 2 {
		return cq == 0 || g.split
	}
	return g.links[cq-2].ownCQ()
}

// events counts the completion events of a round at an end.
func (m *model) events(rd *round, e int) (n int) {
	any, sol := make([]bool, m.g.cqs()), make([]bool, m.g.cqs())
	for i := range m.g.links {
		f, at := rd.fates[i][e], m.g.recvCQ(i)
		for _, x := range f.sent {
			any[0], sol[0] = true, sol[0] || x.status != 0
		}
		for _, ms := range f.msgs {
			for _, x := range ms {
				any[at], sol[at] = true, sol[at] || x.status != 0 || x.sol
			}
		}
		if f.flushed > 0 {
			any[at], sol[at] = true, true
		}
	}
	for k, a := range rd.arms[e] {
		if a != armNot {
			m.armed[e][k] = a
		}
		if m.armed[e][k] == armAny && any[k] || m.armed[e][k] == armSolicited && sol[k] {
			m.armed[e][k] = armNot
			n++
		}
	}
	return n
}

// model holds the memory of both ends of a group, as far as the program determines it. The message that a receive of an
// SRQ or of UD gets is known only from its completion.
type model struct {
	p    *program
	g    *group
	r    *rand.Rand
	mem  [][2][]byte
	rq   [][2][]*rbuf
	free [][2][]int
	srq  [2][]*rbuf
	srqF [2][]int
	next uint64

	armed [2][]arming
	bound [][2]bool // the window that a link's end binds
}

func newModel(p *program, g *group) *model {
	m := &model{p: p, g: g, r: rand.New(rand.NewPCG(p.seed, uint64(1+g.num)))}
	m.bound = make([][2]bool, len(g.links))
	m.mem, m.rq, m.free = make([][2][]byte, len(g.links)), make([][2][]*rbuf, len(g.links)),
		make([][2][]int, len(g.links))
	for i, l := range g.links {
		for e := range 2 {
			m.mem[i][e] = make([]byte, l.size())
			m.drop(i, e)
		}
	}
	for e := range 2 {
		m.armed[e] = make([]arming, g.cqs())
		for i := range g.srqWR {
			m.srqF[e] = append(m.srqF[e], i)
		}
	}
	return m
}

// drop forgets the receives of a QP that is reset.
func (m *model) drop(i, e int) {
	m.rq[i][e], m.free[i][e] = nil, nil
	for s := range m.g.links[i].slots {
		m.free[i][e] = append(m.free[i][e], s)
	}
}

// fillRandom writes n bytes that a seed determines.
func fillRandom(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

func (m *model) id() uint64 { m.next++; return uint64(m.g.num)<<48 | m.next }

const recvBit = 1 << 63

// split cuts n bytes from off into up to max pieces, in any order.
func (m *model) split(off, n, most int, shuffled bool) []piece {
	r := m.r
	k := 1 + r.IntN(most)
	if one(r, 3) {
		k = most
	}
	cuts := make([]int, k+1)
	for i := 1; i < k; i++ {
		cuts[i] = r.IntN(n + 1)
	}
	cuts[k] = n
	slices.Sort(cuts)
	ps := make([]piece, 0, k)
	for i := range k {
		ps = append(ps, piece{off + cuts[i], cuts[i+1] - cuts[i]})
	}
	if shuffled {
		r.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
	}
	return ps
}

// length chooses the length of a message.
func (m *model) length(most int) int {
	r := m.r
	n := 0
	switch r.IntN(20) {
	case 0:
		return 0
	case 1, 2, 3, 4, 5:
		n = r.IntN(most + 1)
	case 6, 7, 8, 9, 10:
		n = r.IntN(513)
	default:
		n = 1 + r.IntN(64)
	}
	return min(n, most)
}

// lane is one direction of a link during planning.
type lane struct {
	i, e   int // link, sending end
	to     int // the link of the peer
	k      kind
	l, t   *link   // and that of the peer
	reads  []piece // of the peer's memory, outstanding and not fenced
	sinks  []piece // where results go
	swaps  bool    // polling changes some of them
	credit func(to int) int
}

// op invents a work request. It executes nothing.
func (m *model) op(d *lane) *op {
	r, l := m.r, d.l
	o := &op{id: m.id(), to: d.to, imm: r.Uint32()}
	if l.typ == ibv.UD {
		o.code = pick(r, ibv.OpSend, ibv.OpSendImm)
		var peers []int
		for i, x := range m.g.links {
			if x.typ == ibv.UD {
				peers = append(peers, i)
			}
		}
		o.to = pick(r, peers...)
	} else {
		o.code = pick(r, ibv.OpSend, ibv.OpSend, ibv.OpSendImm, ibv.OpWrite, ibv.OpWrite, ibv.OpWrite, ibv.OpWriteImm,
			ibv.OpRead, ibv.OpRead, ibv.OpCompareSwap, ibv.OpFetchAdd)
		if l.typ == ibv.UC && (o.code == ibv.OpRead || o.code >= ibv.OpCompareSwap) || d.k == pendingSend &&
			l.opt.SignalAll {
			o.code = ibv.OpWrite
		}
	}
	if l.binds && one(r, 12) {
		m.window(d, o)
		return o
	}
	m.finish(d, o)
	return o
}

// finish chooses the rest of an op with a given code and target.
func (m *model) finish(d *lane, o *op) {
	r, l := m.r, d.l
	if one(r, 3) {
		o.flags |= ibv.Signaled
	}
	if l.streams > 0 {
		o.stream = uint16(r.IntN(1 << l.streams))
	}
	if one(r, 10) && l.reliable() {
		o.flags |= ibv.Fence
	}
	switch o.code {
	case ibv.OpSend, ibv.OpSendImm, ibv.OpSendInv, ibv.OpWriteImm:
		o.consumes = true
		if one(r, 3) {
			o.flags |= ibv.Solicited
		}
	}
	t := d.t
	most := min(l.area, t.area)
	switch {
	case l.typ == ibv.UD:
		most = min(m.g.links[o.to].slot-40, m.p.mtu)
	case o.code == ibv.OpSend || o.code == ibv.OpSendImm || o.code == ibv.OpSendInv:
		if most = t.slot; l.typ == ibv.UC && !m.p.emulated {
			most = min(most, m.p.mtu)
		}
	}
	o.n = m.length(most)
	switch o.code {
	case ibv.OpRead:
		o.n = min(o.n, l.area/64, t.area/64)
		o.from = m.split(m.result(d, o.n, 1), o.n, l.opt.MaxSendSGE, true)
	case ibv.OpCompareSwap, ibv.OpFetchAdd:
		if m.p.masked && !m.p.wire && l.typ == ibv.RC && !l.opt.SignalAll && l.opt.SendOps == 0 && one(r, 2) {
			m.mask(d, o)
			return
		}
		o.n = 8
		o.from = []piece{{m.result(d, 8, 8), 8}}
		o.at = t.target() + 8*r.IntN(t.area/8)
		o.add, o.swap = r.Uint64(), r.Uint64()
		if one(r, 2) {
			o.add = binary.LittleEndian.Uint64(m.mem[d.to][1-d.e][o.at:])
		}
		return
	default:
		base := 0
		// otherwise a result may be in a completion that nobody has polled yet
		if l.reliable() && !l.opt.SignalAll && m.p.emulated && !d.swaps && one(r, 8) {
			base = l.sink()
			o.flags |= ibv.Fence
		}
		if o.n <= l.opt.MaxInline && l.opt.MaxInline > 0 && !one(r, 3) {
			o.inline = true
			if one(r, 3) && !m.p.wire && base == 0 && l.mem[d.e] != inDevice { // the CPU reads there
				o.flags |= ibv.Inline // from SGEs
			}
		}
		o.from = m.split(0, o.n, l.opt.MaxSendSGE, false)
		for k := range o.from { // from anywhere
			o.from[k].off = base + r.IntN(l.area-o.from[k].n+1)
		}
		if o.n == 0 && one(r, 2) {
			o.from = nil
		}
	}
	o.at = t.target() + r.IntN(t.area-o.n+1)
	if !slices.Contains([]ibv.Opcode{ibv.OpWrite, ibv.OpWriteImm, ibv.OpRead}, o.code) {
		o.at = 0
	}
}

// result chooses the memory for n bytes that are read. No two results of a round overlap, since an adapter may leave a
// short result in its completion.
func (m *model) result(d *lane, n, align int) int {
	for {
		p := piece{d.l.sink() + m.r.IntN((d.l.area-n)/align+1)*align, n}
		if n == 0 || !slices.ContainsFunc(d.sinks, func(x piece) bool { return overlap(x, p) }) {
			d.sinks = append(d.sinks, p)
			return p.off
		}
	}
}

func overlap(a, b piece) bool { return a.off < b.off+b.n && b.off < a.off+a.n }

// writes reports whether o changes the peer's memory.
func (o *op) writes() bool {
	return o.code == ibv.OpWrite || o.code == ibv.OpWriteImm || o.code == ibv.OpCompareSwap ||
		o.code == ibv.OpFetchAdd || o.masked != nil
}

// overtakes reports whether o changes what is still being read: a read that is asked for again would see it.
func (d *lane) overtakes(o *op) bool {
	at := piece{o.at, o.n}
	return o.writes() && slices.ContainsFunc(d.reads, func(p piece) bool { return overlap(p, at) })
}

// exec executes a work request in the model, at both ends.
func (m *model) exec(d *lane, o *op, rd *round) {
	own, peer := m.mem[d.i][d.e], m.mem[d.to][1-d.e]
	at := piece{o.at, o.n}
	if !m.p.emulated {
		o.flags &^= ibv.Fence
		defer func() { o.flags &^= ibv.Fence }()
	}
	writes := o.writes()
	if d.overtakes(o) {
		o.flags |= ibv.Fence // else the read may see it
	}
	if o.flags&ibv.Fence != 0 {
		d.reads = nil
	}
	switch o.code {
	case ibv.OpRead:
		d.reads = append(d.reads, at)
		src := peer[o.at:]
		for _, p := range o.from {
			copy(own[p.off:][:p.n], src)
			src = src[p.n:]
		}
		return
	case ibv.OpMaskedCompareSwap, ibv.OpMaskedFetchAdd:
		d.reads = append(d.reads, at)
		copy(own[o.from[0].off:], peer[o.at:][:o.n])
		o.apply(peer[o.at:][:o.n])
		return
	case ibv.OpCompareSwap, ibv.OpFetchAdd:
		d.reads = append(d.reads, at)
		was := binary.LittleEndian.Uint64(peer[o.at:])
		binary.LittleEndian.PutUint64(own[o.from[0].off:], was)
		if o.code == ibv.OpFetchAdd {
			binary.LittleEndian.PutUint64(peer[o.at:], was+o.add)
		} else if was == o.add {
			binary.LittleEndian.PutUint64(peer[o.at:], o.swap)
		}
		return
	}
	if o.code == ibv.OpBindMW || o.code == ibv.OpLocalInv {
		return
	}
	o.data = m.gather(d, o)
	if writes {
		copy(peer[o.at:], o.data)
	}
	if !o.consumes {
		return
	}
	msg := message{opcode: ibv.WCRecv, n: o.n, data: o.data, imm: o.imm, hasImm: o.code != ibv.OpSend,
		sol: o.flags&ibv.Solicited != 0}
	if o.code == ibv.OpWriteImm {
		msg.opcode, msg.data = ibv.WCRecvImm, nil
	}
	if d.l.typ == ibv.UD {
		msg.n += 40
	}
	f := rd.fates[o.to][1-d.e]
	f.msgs[d.i] = append(f.msgs[d.i], msg)
}

func (m *model) gather(d *lane, o *op) []byte {
	b := make([]byte, 0, o.n)
	for _, p := range o.from {
		b = append(b, m.mem[d.i][d.e][p.off:][:p.n]...)
	}
	return b
}

var sendOpcodes = map[ibv.Opcode]ibv.WCOpcode{
	ibv.OpSend: ibv.WCSend, ibv.OpSendImm: ibv.WCSend, ibv.OpSendInv: ibv.WCSend, ibv.OpWrite: ibv.WCWrite,
	ibv.OpWriteImm: ibv.WCWrite, ibv.OpRead: ibv.WCRead,
	ibv.OpCompareSwap: ibv.WCCompareSwap, ibv.OpFetchAdd: ibv.WCFetchAdd, ibv.OpBindMW: ibv.WCBindMW,
	ibv.OpLocalInv: ibv.WCLocalInv, ibv.OpMaskedCompareSwap: ibv.WCCompareSwap, ibv.OpMaskedFetchAdd: ibv.WCFetchAdd,
}

func (o *op) done() sent {
	s := sent{id: o.id, opcode: sendOpcodes[o.code], n: -1}
	switch o.code {
	case ibv.OpRead, ibv.OpCompareSwap, ibv.OpFetchAdd, ibv.OpMaskedCompareSwap, ibv.OpMaskedFetchAdd:
		s.n = o.n
	case ibv.OpSendImm, ibv.OpWriteImm:
		s.flags = ibv.WCWithImm
	}
	return s
}

// plan invents a round and executes it in the model.
func (m *model) plan() *round {
	r, g := m.r, m.g
	rd := &round{kinds: make([]kind, len(g.links)), fates: make([][2]*fate, len(g.links))}
	for i := range g.links {
		for e := range 2 {
			rd.fates[i][e] = &fate{msgs: make(map[int][]message), from: i}
		}
	}
	culprit, from := -1, r.IntN(2)
	if one(r, 3) {
		culprit = r.IntN(len(g.links))
		rd.kinds[culprit] = m.kind(culprit, from)
	}
	m.address(rd)
	for i, l := range g.links {
		for e := range 2 {
			for range r.IntN(3) {
				s := scribble{i, r.IntN(l.area), 0, r.Uint64()}
				s.n = 1 + r.IntN(l.area-s.off)
				rd.scribbles[e] = append(rd.scribbles[e], s)
				fillRandom(m.mem[i][e][s.off:][:s.n], s.seed)
			}
		}
	}
	for e := range 2 {
		m.planRecvs(rd, e, from)
	}
	left := make([][2]int, len(g.links))
	for i := range g.links {
		for e := range 2 {
			left[i][e] = len(m.rq[i][e])
		}
	}
	srqLeft := [2]int{len(m.srq[0]), len(m.srq[1])}
	for e := range 2 {
		if n := len(m.srq[e]); n > 0 && one(r, 3) {
			rd.limit[e] = 1 + r.IntN(n)
		}
	}
	for e := range 2 {
		for i, l := range g.links {
			d := &lane{i: i, e: e, to: rd.to[i], l: l, t: g.links[rd.to[i]], k: rd.kinds[i]}
			d.credit = func(to int) int {
				if g.links[to].srq {
					return srqLeft[1-e]
				}
				return left[to][1-e]
			}
			ops := m.planSends(rd, d, func(to int) {
				if g.links[to].srq {
					srqLeft[1-e]--
				} else {
					left[to][1-e]--
				}
			}, rd.kinds[i], from)
			rd.ops += len(ops)
			cs := m.cut(d, ops)
			m.signal(cs, l, rd.fates[i][e])
			rd.chunks[e] = append(rd.chunks[e], cs...)
		}
		m.interleave(rd.chunks[e])
	}
	if culprit >= 0 && rd.kinds[culprit] != normal {
		m.planFault(rd, culprit, from, left[culprit])
	}
	for e := range 2 {
		rd.arms[e] = make([]arming, g.cqs())
		for k := range rd.arms[e] {
			if m.p.wire && g.has(k) {
				rd.arms[e][k] = arming(r.IntN(3))
			}
		}
		rd.srqUsed[e] = len(m.srq[e]) - srqLeft[e]
		rd.fires[e] = rd.limit[e] > 0 && srqLeft[e] < rd.limit[e]
	}
	return rd
}

// kind chooses one of the possible faults.
func (m *model) kind(i, from int) kind {
	l := m.g.links[i]
	k := kind(1 + m.r.IntN(int(kinds)-1))
	if !m.p.emulated && k != toErr && !effects[k].rxe {
		return normal
	}
	if l.typ == ibv.DCI && !k.onDC() || l.typ != ibv.RC && l.typ != ibv.DCI &&
		(k != badLKey || !m.p.emulated || l.typ == ibv.XRCSend) {
		return normal
	}
	switch k {
	case outOfRange: // there is nothing beyond
		if l.mem[1-from] == implicit && l.lends == 0 {
			return normal
		}
	case badInv: // its receive must be there
		if l.srq {
			return normal
		}
	case noRecv:
		if !l.rnrZero || l.srq {
			return normal
		}
	case shortRecv, badRecvKey:
		if l.srq || len(m.rq[i][1-from]) > 0 {
			return normal
		}
	case pendingSend:
		if l.opt.MaxSendWR < 3 {
			return normal
		}
	}
	return k
}

// planRecvs posts receives at end e.
func (m *model) planRecvs(rd *round, e, from int) {
	r, g := m.r, m.g
	for i, l := range g.links {
		if l.srq {
			continue
		}
		n := r.IntN(len(m.free[i][e]) + 1)
		k := rd.kinds[i]
		if len(m.rq[i][e]) == 0 && len(m.free[i][e]) > 0 {
			n = max(n, 1)
		}
		if k == noRecv && e != from && one(r, 2) {
			n = 0
		}
		late := l.reliable() && !g.links[rd.fates[i][e].from].rnrZero && k == normal && !m.p.wire && one(r, 4)
		var bufs []*rbuf
		for range n {
			s := m.free[i][e][0]
			m.free[i][e] = m.free[i][e][1:]
			b := &rbuf{id: recvBit | m.id(), slot: s, pieces: m.split(l.recv()+s*l.slot, l.slot,
				l.opt.MaxRecvSGE, true)}
			b.bad = k == badRecvKey && e != from && len(bufs) == 0
			if b.bad {
				b.pieces = []piece{{l.recv() + s*l.slot, l.slot}}
			}
			m.rq[i][e] = append(m.rq[i][e], b)
			bufs = append(bufs, b)
			if one(r, 4) {
				rd.recvs[e] = append(rd.recvs[e], rpost{i, bufs, late})
				bufs = nil
				if k == badRecvKey {
					k = normal
				}
			}
		}
		if len(bufs) > 0 {
			rd.recvs[e] = append(rd.recvs[e], rpost{i, bufs, late})
		}
		rd.ops += n
	}
	if n := len(m.srqF[e]); n > 0 {
		n = r.IntN(n + 1)
		var bufs []*rbuf
		for range n {
			s := m.srqF[e][0]
			m.srqF[e] = m.srqF[e][1:]
			bufs = append(bufs, &rbuf{id: recvBit | m.id(), slot: s, pieces: m.split(s*g.slot, g.slot, g.srqSGE, true)})
		}
		m.srq[e] = append(m.srq[e], bufs...)
		for len(bufs) > 0 {
			k := 1 + r.IntN(len(bufs))
			rd.recvs[e] = append(rd.recvs[e], rpost{-1, bufs[:k], false})
			bufs = bufs[k:]
		}
		rd.ops += n
	}
}

// planSends plans one direction of a link.
func (m *model) planSends(rd *round, d *lane, use func(to int), k kind, from int) (ops []*op) {
	r, l := m.r, d.l
	n := pick(r, 0, 1, 2, 5, 10, 20, 40)
	fault := k != normal && d.e == from && effects[k].status != 0
	if k != normal {
		if n = min(n, 8); d.e != from || k == toErr || k == peerGone {
			n = 0
		}
	}
	if k == pendingSend {
		n = min(n, l.opt.MaxSendWR-2)
	}
	least := 0 // receives to leave
	if k == shortRecv || k == badInv {
		least = 1
	}
	last := l.typ == ibv.UC && !fault
	if last && n > 0 { // a message at the end tells that what is before it has arrived
		if d.credit(d.i) == 0 {
			return nil
		}
		use(d.i)
	}
	do := func(o *op) {
		if o.consumes && (d.credit(o.to) <= least || k == badRecvKey) {
			return
		}
		if !m.p.emulated && d.overtakes(o) { // it would need a fence
			return
		}
		if o.consumes {
			use(o.to)
		}
		m.exec(d, o, rd)
		ops = append(ops, o)
	}
	for range n {
		do(m.op(d))
	}
	switch {
	case last && n > 0:
		o := m.code(d, ibv.OpSend)
		m.exec(d, o, rd)
		ops = append(ops, o)
	case k == noRecv && d.e == from:
		for d.credit(d.i) > 0 { // use them up
			do(m.code(d, ibv.OpSend))
		}
	case k == pendingSend && d.e == from:
		if d.credit(d.i) > 0 {
			o := m.code(d, ibv.OpSend)
			o.flags |= ibv.Fence
			do(o)
		} else {
			rd.kinds[d.i] = normal
		}
	}
	if fault {
		ops = m.fail(rd, d, k, ops)
	}
	return ops
}

// signal decides which work requests are signaled, and records those.
func (m *model) signal(cs []chunk, l *link, f *fate) {
	unsignaled := 0
	for i, c := range cs {
		for k, o := range c.ops {
			end := k == len(c.ops)-1
			if unsignaled++; o.bad != normal || end && (m.p.wire || i == len(cs)-1) ||
				unsignaled >= max(l.opt.MaxSendWR/2, 1) {
				o.flags |= ibv.Signaled
			}
			if o.bad != normal && one(m.r, 2) { // reported all the same
				o.flags &^= ibv.Signaled
			}
			if o.masked != nil && o.masked.Size > 8 { // the words of the previous value are swapped by Poll
				o.flags |= ibv.Signaled
			}
			switch {
			case o.bad == kinds:
				f.sent = append(f.sent, sent{id: o.id, status: ibv.WCWRFlushErr})
			case o.bad != normal:
				f.sent = append(f.sent, sent{id: o.id, status: effects[o.bad].status})
			case o.flags&ibv.Signaled != 0 || l.opt.SignalAll:
				f.sent = append(f.sent, o.done())
				unsignaled = 0
			}
		}
	}
}

// code returns an op of a given code.
func (m *model) code(d *lane, c ibv.Opcode) *op {
	o := &op{id: m.id(), code: c, to: d.to, imm: m.r.Uint32()}
	m.finish(d, o)
	return o
}

// fail ends a lane with a work request that fails, and some that are flushed.
func (m *model) fail(rd *round, d *lane, k kind, ops []*op) []*op {
	r, l := m.r, d.l
	c := ibv.OpSend
	switch k {
	case badRKey, outOfRange:
		c = pick(r, ibv.OpWrite, ibv.OpRead, ibv.OpFetchAdd)
		if k == outOfRange {
			c = pick(r, ibv.OpWrite, ibv.OpRead)
		}
	case misaligned:
		c = pick(r, ibv.OpCompareSwap, ibv.OpFetchAdd)
	case badInv:
		c = ibv.OpSendInv
	case peerGone, badLKey:
		if c = pick(r, ibv.OpSend, ibv.OpWrite); l.typ == ibv.UD {
			c = ibv.OpSend
		}
	}
	var o *op
	for o == nil || o.n == 0 {
		o = m.code(d, c)
	}
	if k == badLKey || k == shortRecv {
		o.inline, o.flags = false, o.flags&^ibv.Inline
	}
	if k == badLKey { // each piece
		o.from = []piece{{0, o.n}}
	}
	if k == shortRecv {
		o.n = l.slot + 1 + r.IntN(100)
		o.from = []piece{{0, o.n}}
	}
	switch k {
	case outOfRange:
		o.at = l.size() - o.n + 1 + r.IntN(o.n)
	case misaligned:
		o.at = l.target() + 1 + r.IntN(7)
	}
	o.data = m.gather(d, o)
	o.bad = k
	ops = append(ops, o)
	rd.fates[d.i][d.e].failed = o.stream
	for range r.IntN(5) {
		after := m.op(d)
		if after.stream != o.stream { // that stream goes on
			if !after.consumes {
				m.exec(d, after, rd)
				ops = append(ops, after)
			}
			continue
		}
		after.flags &^= ibv.Inline
		after.data = m.gather(d, after)
		after.bad = kinds
		ops = append(ops, after)
	}
	return ops
}

// planFault plans the consequences of a fault for both ends of its link.
func (m *model) planFault(rd *round, i, from int, left [2]int) {
	l, k := m.g.links[i], rd.kinds[i]
	a, b := rd.fates[i][from], rd.fates[i][1-from]
	x := effects[k]
	if l.typ == ibv.DCI {
		m.planDCFault(k, i, a, b)
		return
	}
	if l.typ == ibv.RC && (x.status != 0 || k == toErr) {
		if !l.srq {
			a.flushed = left[from]
		} else {
			a.events = append(a.events, ibv.EventQPLastWQEReached)
		}
		a.toErr = k == toErr
	}
	if x.peerErrs {
		n := left[1-from]
		if x.own != 0 {
			b.msgs[i] = append(b.msgs[i], message{status: x.own})
			n--
		} else {
			b.events = append(b.events, x.event)
		}
		if !l.srq {
			b.flushed = n
		} else {
			b.events = append(b.events, ibv.EventQPLastWQEReached)
		}
	}
	b.goneBy = k == peerGone
	b.skip = k == pendingRecv
	a.skipSQ = k == pendingSend
	for _, f := range []*fate{a, b} {
		f.renew, f.rebuild = true, one(m.r, 2)
	}
	if k == pendingSend || k == pendingRecv {
		a.rebuild, b.rebuild = one(m.r, 2), one(m.r, 2)
	}
}

// cut divides a lane into chunks.
func (m *model) cut(d *lane, ops []*op) (cs []chunk) {
	r := m.r
	for len(ops) > 0 {
		n := min(len(ops), 1+r.IntN(pick(r, 1, 4, 16)))
		for k := range n {
			if ops[k].bad != normal { // the failing one and what is flushed go together: a failed QP need not take more
				n = len(ops)
				break
			}
		}
		c := chunk{d.i, ops[:n], how(r.IntN(int(hows)))}
		if m.p.wire { // a chunk is a doorbell: what is posted meanwhile might be rung together with it, or not
			if n = min(n, d.l.opt.MaxSendWR); c.how == byOne || c.how == byPostWithBad {
				c.how = byPostSend
			}
			c.ops = ops[:n]
		}
		cs = append(cs, c)
		ops = ops[n:]
	}
	return cs
}

// interleave mixes the chunks of different links.
func (m *model) interleave(cs []chunk) {
	by := make(map[int][]chunk)
	var order []int
	for _, c := range cs {
		by[c.link] = append(by[c.link], c)
		order = append(order, c.link)
	}
	m.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for i, l := range order {
		cs[i] = by[l][0]
		by[l] = by[l][1:]
	}
}
