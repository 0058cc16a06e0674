//go:build linux

package random

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// station is one end of a group, driven by one goroutine.
type station struct {
	p       *program
	g       *group
	e       int
	m       *model
	h       *host
	rxe     testutil.RXE
	stopped func() bool                  // another station failed
	swap    func([]byte) ([]byte, error) // gives something to the other end and waits for what that gives

	pd, base   *ibv.PD
	td         *ibv.ThreadDomain
	send, recv *hub
	srq        *ibv.SRQ
	xrcd       *ibv.XRCD
	srqMem     *memory
	srqImage   []byte
	used       map[*rbuf]bool
	qps        []*end
	late       []rpost
	ops, wcs   int
	events     int // completion events of armings
	log        []entry
}

// end is one end of a link.
type end struct {
	l    *link
	qp   *ibv.QP
	mem  *memory
	box  *box
	ah   *ibv.AH
	peer peer
	fate *fate
	rq   []*rbuf // receives that are outstanding
	left []sent  // completions that are to come

	windows windows
	target  target // of a link of XRC or DC
}

// peer is what the other end reports about itself.
type peer struct {
	Endpoint ibv.Endpoint
	Memory   ibv.RemoteMemory
	Target   *ibv.Endpoint // of a link of XRC or DC
	SRQ      uint32
}

// entry records something that a station did or saw, for the report of a failure.
type entry struct {
	what string
	link int
	op   *op
	wc   ibv.WC
}

func (s *station) note(what string, link int, o *op, wc *ibv.WC) {
	if len(s.log) > 4000 {
		s.log = append(s.log[:0], s.log[3900:]...)
	}
	en := entry{what: what, link: link, op: o}
	if wc != nil {
		en.wc = *wc
	}
	s.log = append(s.log, en)
}

// last returns the last n operations of the links that wait for completions, or of all links.
func (s *station) last(n int) string {
	var b strings.Builder
	var log []entry
	all := !slices.ContainsFunc(s.qps, func(q *end) bool { return q.fate != nil && s.lacks(q) })
	for _, en := range s.log {
		if all || en.link < 0 || s.lacks(s.qps[en.link]) {
			log = append(log, en)
		}
	}
	for _, en := range log[max(0, len(log)-n):] {
		fmt.Fprintf(&b, "  g%d e%d link %d %s", s.g.num, s.e, en.link, en.what)
		if en.op != nil {
			fmt.Fprintf(&b, " %v", en.op)
		}
		if en.what == "completion" {
			fmt.Fprintf(&b, " %#x %v %v %d bytes imm %#x flags %v vendor %#x", en.wc.ID, en.wc.Status, en.wc.Opcode,
				en.wc.ByteLen, en.wc.Imm, en.wc.Flags, en.wc.VendorErr)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// run runs the program's part.
func (s *station) run() error {
	if err := s.open(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := s.connect(func(int) bool { return true }); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	for n := range s.p.rounds {
		if err := s.round(); err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
	}
	return s.close()
}

func (s *station) open() (err error) {
	if s.base, err = s.h.dev.AllocPD(); err != nil {
		return err
	}
	s.pd = s.base
	if s.g.single && s.p.emulated {
		if s.td, err = s.h.dev.AllocThreadDomain(); err != nil {
			return err
		}
		if s.pd, err = s.h.dev.AllocParentDomain(s.base, s.td); err != nil {
			return err
		}
	}
	if s.send = s.h.shared; !s.g.shared {
		opt := &ibv.CQOptions{SingleThreaded: s.g.single}
		if s.g.sleep {
			opt.Spin = ibv.None
		}
		if s.send, err = s.newHub(opt, 0); err != nil {
			return err
		}
	}
	s.recv = s.send
	if s.g.split && !s.g.shared {
		if s.recv, err = s.newHub(&ibv.CQOptions{SingleThreaded: s.g.single, Spin: ibv.None}, 1); err != nil {
			return err
		}
	}
	s.used = make(map[*rbuf]bool)
	if n := s.g.srqWR; n > 0 {
		if s.srq, err = s.base.CreateSRQ(&ibv.SRQOptions{MaxWR: n, MaxSGE: s.g.srqSGE,
			SingleThreaded: s.g.single}); err != nil {
			return err
		}
		if s.srqMem, err = newMemory(s.base, n*s.g.slot, s.place(500), s.g.srqMem[s.e]); err != nil {
			return err
		}
		s.srqImage = make([]byte, n*s.g.slot)
	}
	for i, l := range s.g.links {
		q := &end{l: l, box: &box{}}
		if q.mem, err = newMemory(s.base, l.size(), s.place(i), l.mem[s.e]); err != nil {
			return err
		}
		copy(q.mem.b, s.m.mem[i][s.e])
		if err = q.mem.store(); err != nil {
			return err
		}
		if err = s.make(q); err != nil {
			return err
		}
		s.qps = append(s.qps, q)
	}
	return nil
}

// place returns an address that is the same in every run, or 0 for any.
func (s *station) place(i int) uintptr {
	if !s.p.wire {
		return 0
	}
	return uintptr(1+2*i+s.e) << 32
}

// make creates the QP of an end.
func (s *station) make(q *end) (err error) {
	opt := q.l.opt
	if q.l.srq {
		opt.SRQ, opt.MaxRecvWR, opt.MaxRecvSGE = s.srq, 0, 0
	}
	recv := s.recv.cq
	if q.l.typ == ibv.XRCSend {
		opt.MaxRecvWR, opt.MaxRecvSGE, recv = 0, 0, nil
		if err = s.newTarget(q); err != nil {
			return err
		}
	}
	opt.SingleThreaded = s.g.single
	switch {
	case q.l.typ == ibv.DCI:
		q.qp, err = s.newDCI(q, opt)
	case q.l.mem[s.e] == inDevice:
		// The CPU cannot copy to that memory what comes in a completion.
		q.qp, err = mlx5dv.CreateQP(s.pd, s.send.cq, recv, &mlx5dv.QPOptions{QPOptions: opt,
			Flags: mlx5dv.DisableScatterToCQE})
	default:
		q.qp, err = s.pd.CreateQP(s.send.cq, recv, &opt)
	}
	if err != nil {
		return err
	}
	q.box = &box{}
	s.send.add(q.qp.Num(), q.box)
	s.recv.add(q.qp.Num(), q.box)
	return nil
}

// connect connects links, as the other end does at the same time.
func (s *station) connect(these func(i int) bool) error {
	mine := make([]*peer, len(s.qps)) // nil for what is not connected anew
	for i, q := range s.qps {
		if !these(i) {
			continue
		}
		e, err := q.qp.Endpoint(s.rxe.Port, s.rxe.GID)
		if err != nil {
			return err
		}
		mine[i] = &peer{Endpoint: e, Memory: q.mem.Remote(), SRQ: q.target.num}
		if q.target.qp != nil {
			t, err := q.target.qp.Endpoint(s.rxe.Port, s.rxe.GID)
			if err != nil {
				return err
			}
			mine[i].Target = &t
		}
	}
	b, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	if b, err = s.swap(b); err != nil {
		return err
	}
	var theirs []*peer
	if err := json.Unmarshal(b, &theirs); err != nil {
		return err
	}
	for i, q := range s.qps {
		if !these(i) {
			continue
		}
		q.peer = *theirs[i]
		if q.fate != nil && q.fate.stream { // it is connected
			continue
		}
		opt := s.options(q.l)
		to := q.peer.Endpoint
		if q.target.qp != nil && q.l.typ == ibv.XRCSend {
			if err := q.target.qp.Connect(to, opt); err != nil {
				return err
			}
			to = *q.peer.Target
		}
		if err := q.qp.Connect(to, opt); err != nil {
			return err
		}
		if (q.l.typ == ibv.UD || q.l.typ == ibv.DCI) && q.ah == nil {
			// Without a flow label libmlx5 chooses a random UDP source port.
			attr, err := q.qp.Address(q.peer.Endpoint, &ibv.ConnectOptions{FlowLabel: uint32(1 + q.l.num)})
			if err != nil {
				return err
			}
			if q.ah, err = s.pd.CreateAH(attr); err != nil {
				return err
			}
		}
	}
	return s.lend(these)
}

// options returns how a link is connected.
func (s *station) options(l *link) *ibv.ConnectOptions {
	opt := &ibv.ConnectOptions{RNRTimer: ibv.RNRTimer(1).Duration()}
	if l.rnrZero {
		opt.RNRRetry = ibv.None
	}
	if s.p.emulated {
		opt.AckTimeout, opt.RetryCount = ibv.TimeCode(8).Duration(), 1
	}
	return opt
}

// lend gives the ends of links that were connected their windows, and tells the peers' what to use.
func (s *station) lend(these func(i int) bool) error {
	mine := make([]ibv.RemoteMemory, len(s.qps))
	for i, q := range s.qps {
		if !these(i) || q.l.typ == ibv.UD {
			continue
		}
		var err error
		if mine[i], err = s.newWindows(q); err != nil {
			return err
		}
	}
	b, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	if b, err = s.swap(b); err != nil {
		return err
	}
	var theirs []ibv.RemoteMemory
	if err := json.Unmarshal(b, &theirs); err != nil {
		return err
	}
	for i, q := range s.qps {
		if these(i) && q.l.typ != ibv.UD {
			q.peer.Memory = theirs[i]
		}
	}
	return nil
}

func (s *station) barrier() error { _, err := s.swap(nil); return err }

// round invents a round, executes it and compares the results.
func (s *station) round() error {
	rd := s.m.plan()
	s.ops += rd.ops
	for i, q := range s.qps {
		q.fate = rd.fates[i][s.e]
		q.left = slices.Clone(q.fate.sent)
		q.rq = slices.Clone(s.m.rq[i][s.e])
		if q.fate.skipSQ {
			q.left = nil
		}
		if rd.kinds[i] != normal {
			s.note("round with "+rd.kinds[i].String(), i, nil, nil)
		}
	}
	msgs := s.counts(rd)
	for _, c := range rd.scribbles[s.e] {
		m := s.qps[c.link].mem
		if err := m.load(); err != nil {
			return err
		}
		fillRandom(m.b[c.off:][:c.n], c.seed)
		if err := m.store(); err != nil {
			return err
		}
	}
	s.late = nil
	for _, p := range rd.recvs[s.e] {
		if p.late {
			s.late = append(s.late, p)
		} else if err := s.postRecv(p); err != nil {
			return err
		}
	}
	if n := rd.limit[s.e]; n > 0 {
		if err := s.srq.SetLimit(n); err != nil {
			return err
		}
	}
	for i, q := range s.qps {
		if q.fate.goneBy {
			s.note("reset", i, nil, nil)
			if err := q.qp.Modify(&ibv.QPAttr{State: ibv.StateReset}, ibv.MaskState); err != nil {
				return err
			}
		}
	}
	if err := s.arm(rd); err != nil {
		return err
	}
	if err := s.barrier(); err != nil {
		return err
	}
	for i, q := range s.qps {
		if q.fate.toErr {
			s.note("to ERR", i, nil, nil)
			if err := q.qp.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState); err != nil {
				return err
			}
		}
	}
	for _, c := range rd.chunks[s.e] {
		if err := s.post(c); err != nil {
			return err
		}
		if s.p.wire {
			if err := s.collect(func(q *end) bool { return len(q.left) > s.after(q, c) }); err != nil {
				return err
			}
		}
	}
	if err := s.postLate(); err != nil {
		return err
	}
	if s.p.wire { // the other end's sends come now
		if err := s.barrier(); err != nil {
			return err
		}
	}
	if err := s.collect(s.lacks); err != nil {
		return err
	}
	if err := s.barrier(); err != nil { // the peer's writes are complete
		return err
	}
	if err := s.settle(rd, msgs); err != nil {
		return err
	}
	return s.renew(rd)
}

// arm requests events that nobody waits for.
func (s *station) arm(rd *round) error {
	if !s.p.wire {
		return nil
	}
	if err := s.eventsRead(); err != nil {
		return err
	}
	s.events += s.m.events(rd, s.e)
	hubs := []*hub{s.send, s.recv}
	for _, q := range s.qps {
		hubs = append(hubs, q.target.hub)
	}
	for k, h := range hubs {
		if a := rd.arms[s.e][k]; a != armNot {
			if err := h.cq.Arm(a == armSolicited); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventsRead waits until the events of all earlier rounds were read: an arming carries how many were. SoftRoCE has no
// such number, and other events.
func (s *station) eventsRead() error {
	if !s.rxe.Emulated {
		return nil
	}
	n := 0
	for end := time.Now().Add(testutil.Patience); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if n = int(s.send.cq.Events()); s.recv != s.send {
			n += int(s.recv.cq.Events())
		}
		for _, q := range s.qps {
			if q.target.hub != nil {
				n += int(q.target.hub.cq.Events())
			}
		}
		if n >= s.events {
			return nil
		}
	}
	return fmt.Errorf("%d completion events were read, want %d", n, s.events)
}

// after returns the number of a QP's completions that are expected after a chunk of it, 0 for other QPs' chunks.
func (s *station) after(q *end, c chunk) int {
	if q != s.qps[c.link] {
		return len(q.left)
	}
	last := c.ops[len(c.ops)-1].id
	for i, x := range q.fate.sent {
		if x.id == last {
			return len(q.fate.sent) - i - 1
		}
	}
	return len(q.left)
}

// counts returns how many receives each link's ends use in a round.
func (s *station) counts(rd *round) [][2]int {
	n := make([][2]int, len(s.qps))
	for i := range s.qps {
		for e := range 2 {
			f := rd.fates[i][e]
			for _, m := range f.msgs {
				n[i][e] += len(m)
			}
			n[i][e] += f.flushed
		}
	}
	return n
}

// lacks reports whether completions of q are outstanding.
func (s *station) lacks(q *end) bool {
	if len(q.left) > 0 {
		return true
	}
	return s.lacksRecv(q)
}

func (s *station) lacksRecv(q *end) bool {
	if q.fate.skip {
		return false
	}
	for _, m := range q.fate.msgs {
		if len(m) > 0 {
			return true
		}
	}
	return q.fate.flushed > 0
}

func (s *station) postRecv(p rpost) error {
	wrs := make([]ibv.RecvWR, len(p.bufs))
	mem := s.srqMem
	if p.link >= 0 {
		mem = s.qps[p.link].mem
	}
	for i, b := range p.bufs {
		wrs[i].ID = b.id
		for _, x := range b.pieces {
			g := mem.SGE(x.off, x.n)
			if b.bad {
				g.LKey ^= 0x55
			}
			wrs[i].SGEs = append(wrs[i].SGEs, g)
		}
		s.note(fmt.Sprintf("receive %#x of %v bad %v", b.id, b.pieces, b.bad), p.link, nil, nil)
	}
	var n int
	var err error
	switch {
	case p.link < 0:
		n, err = s.srq.PostRecv(wrs)
	case s.qps[p.link].target.srq != nil:
		n, err = s.qps[p.link].target.srq.PostRecv(wrs)
	default:
		n, err = s.qps[p.link].qp.PostRecv(wrs)
	}
	if err != nil || n != len(wrs) {
		return fmt.Errorf("post receive, link %d: %d of %d: %w", p.link, n, len(wrs), err)
	}
	return nil
}

func (s *station) postLate() error {
	late := s.late
	s.late = nil
	for _, p := range late {
		if err := s.postRecv(p); err != nil {
			return err
		}
	}
	return nil
}

// wr returns a work request as the program posts it.
func (s *station) wr(q *end, o *op) ibv.SendWR {
	w := ibv.SendWR{ID: o.id, Opcode: o.code, Flags: o.flags, Imm: o.imm, CompareAdd: o.add, Swap: o.swap,
		Masked: o.masked, RemoteSRQN: q.peer.SRQ}
	if o.inline && o.flags&ibv.Inline == 0 {
		w.Inline = o.data[:len(o.data):len(o.data)]
		if w.Inline == nil {
			w.Inline = []byte{}
		}
	} else {
		for _, x := range o.from {
			g := q.mem.SGE(x.off, x.n)
			if o.bad == badLKey {
				g.LKey ^= 0x55
			}
			w.SGEs = append(w.SGEs, g)
		}
	}
	switch o.code {
	case ibv.OpWrite, ibv.OpWriteImm, ibv.OpRead, ibv.OpCompareSwap, ibv.OpFetchAdd, ibv.OpMaskedCompareSwap,
		ibv.OpMaskedFetchAdd:
		w.Remote = s.qps[o.to].peer.Memory.At(uint64(o.at))
		if o.bad == badRKey {
			w.Remote.RKey ^= 0x55
		}
	case ibv.OpSendInv: // of no window
		w.InvalidateRKey = q.peer.Memory.RKey ^ 0x55
	case ibv.OpBindMW, ibv.OpLocalInv:
		q.window(&w, o)
	}
	if q.l.typ == ibv.UD {
		to := s.qps[o.to].peer.Endpoint
		w.AH, w.RemoteQPN, w.RemoteQKey = q.ah, to.QPN, to.QKey
	}
	if q.l.typ == ibv.DCI {
		s.addressDC(&w, q, o)
	}
	return w
}

// post posts a chunk, and makes room for it if necessary.
func (s *station) post(c chunk) error {
	q := s.qps[c.link]
	how := c.how
	wrs := make([]ibv.SendWR, 0, len(c.ops)+1)
	for _, o := range c.ops {
		wrs = append(wrs, s.wr(q, o))
		s.note(fmt.Sprintf("send, way %d", how), c.link, o, nil)
		if o.bad != normal && !s.p.emulated {
			how = byPostSend
		}
	}
	if how == byBatchAfterDiscard && len(wrs) <= q.qp.Cap().MaxSendWR {
		b := q.qp.Batch()
		for k := range wrs {
			b.Add(&wrs[len(wrs)-1-k])
		}
		b.Reset()
	}
	if len(wrs) > q.qp.Cap().MaxSendWR { // which no batch can be
		how = byPostSend
	}
	deadline := time.Now().Add(patience)
	for len(wrs) > 0 {
		var n int
		var err error
		switch how {
		case byPostSend:
			n, err = q.qp.PostSend(wrs)
		case byOne:
			n, err = q.qp.PostSend(wrs[:1])
		case byPostWithBad:
			n, err = q.qp.PostSend(append(wrs, ibv.SendWR{Opcode: 200, AH: q.ah}))
			if n == len(wrs) && err != nil && !errors.Is(err, ibv.ErrQueueFull) {
				err = nil
			} else if err == nil {
				return errors.New("opcode 200 was posted")
			}
		default:
			b := q.qp.Batch()
			for k := range wrs {
				b.Add(&wrs[k])
			}
			n = len(wrs)
			if err = b.Post(); err != nil {
				n = 0
				var pe *ibv.PostError
				if errors.As(err, &pe) {
					n = pe.Accepted
				}
			}
		}
		wrs = wrs[n:]
		switch {
		case errors.Is(err, ibv.ErrQueueFull):
			if err := s.postLate(); err != nil {
				return err
			}
			if _, err := s.pump(false); err != nil {
				return err
			}
			runtime.Gosched()
			if time.Now().After(deadline) {
				return fmt.Errorf("link %d: the send queue stays full: %s", c.link, s.missing())
			}
		case err != nil:
			return fmt.Errorf("link %d: post: %w", c.link, err)
		}
	}
	return nil
}

// collect waits until no QP has outstanding completions.
func (s *station) collect(lacks func(q *end) bool) error {
	deadline := time.Now().Add(patience)
	for spins := 0; slices.ContainsFunc(s.qps, lacks); spins++ {
		n, err := s.pump(s.g.sleep)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		runtime.Gosched()
		if spins > 2000 {
			time.Sleep(20 * time.Microsecond)
		}
		if s.stopped() {
			return errAborted
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("completions are missing: %s", s.missing())
		}
	}
	return nil
}

func (s *station) missing() string {
	var b strings.Builder
	for i, q := range s.qps {
		if q.fate != nil && s.lacks(q) {
			fmt.Fprintf(&b, "link %d: %d sends", i, len(q.left))
			if len(q.left) > 0 {
				fmt.Fprintf(&b, " from %#x", q.left[0].id)
			}
			for from, m := range q.fate.msgs {
				fmt.Fprintf(&b, ", %d messages of %d", len(m), from)
			}
			fmt.Fprintf(&b, ", %d flushed receives; ", q.fate.flushed)
		}
	}
	return b.String()
}

// pump polls or sleeps, and compares the completions with the expected ones.
func (s *station) pump(sleep bool) (int, error) {
	var ctx context.Context
	hubs := []*hub{s.send, s.recv}
	if s.send == s.recv {
		hubs = hubs[:1]
	}
	for _, q := range s.qps {
		if q.target.hub != nil {
			hubs = append(hubs, q.target.hub)
		}
	}
	if sleep {
		// Wait where a completion is outstanding.
		h := s.send
		if !slices.ContainsFunc(s.qps, func(q *end) bool { return len(q.left) > 0 }) {
			h = s.recv
		}
		hubs = []*hub{h}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), patience)
		defer cancel()
	}
	n := 0
	for _, h := range hubs {
		k, err := h.pump(ctx)
		if n += k; err != nil {
			if sleep && ctx.Err() != nil {
				err = fmt.Errorf("%w; missing: %s", err, s.missing())
			}
			return n, err
		}
	}
	for i, q := range s.qps {
		wcs := s.send.take(q.box)
		if q.target.hub != nil {
			wcs = append(wcs, q.target.hub.take(q.target.box)...)
		}
		for _, wc := range wcs {
			n++
			s.wcs++
			s.note("completion", i, nil, &wc)
			var err error
			if wc.ID&recvBit != 0 {
				err = s.received(i, q, &wc)
			} else {
				err = s.completed(q, &wc)
			}
			if err != nil {
				return n, fmt.Errorf("link %d: completion %#x %v %v of %d bytes, imm %#x, flags %v, from %#x, vendor "+
					"%#x: %w", i, wc.ID, wc.Status, wc.Opcode, wc.ByteLen, wc.Imm,
					wc.Flags, wc.SrcQPN, wc.VendorErr, err)
			}
		}
	}
	return n, nil
}

// completed compares the completion of a send.
func (s *station) completed(q *end, wc *ibv.WC) error {
	if q.fate.skipSQ {
		return nil
	}
	if len(q.left) == 0 {
		return errors.New("no completion of a send was to come")
	}
	x := q.left[0]
	q.left = q.left[1:]
	switch {
	case wc.ID != x.id:
		return fmt.Errorf("want that of %#x", x.id)
	case wc.Status != x.status:
		return fmt.Errorf("want %v", x.status)
	case x.status != ibv.WCSuccess:
	case wc.Opcode != x.opcode:
		return fmt.Errorf("want %v", x.opcode)
	case x.n >= 0 && wc.ByteLen != uint32(x.n):
		return fmt.Errorf("want %d bytes", x.n)
	case wc.Flags != x.flags:
		return fmt.Errorf("want flags %v", x.flags)
	case wc.QPN != q.qp.Num():
		return fmt.Errorf("want QP %#x, not %#x", q.qp.Num(), wc.QPN)
	}
	return nil
}

// received compares the completion of a receive and puts the message in the model.
func (s *station) received(i int, q *end, wc *ibv.WC) error {
	if q.fate.skip {
		return nil
	}
	from := q.fate.from
	if q.l.typ == ibv.UD {
		from = slices.IndexFunc(s.qps, func(x *end) bool {
			return x.l.typ == ibv.UD && x.peer.Endpoint.QPN == wc.SrcQPN
		})
	}
	var buf *rbuf
	if q.l.srq {
		k := slices.IndexFunc(s.m.srq[s.e], func(b *rbuf) bool { return b.id == wc.ID })
		if k < 0 || s.used[s.m.srq[s.e][k]] {
			return errors.New("no such receive is in the SRQ")
		}
		buf = s.m.srq[s.e][k]
		s.used[buf] = true
	} else {
		if len(q.rq) == 0 {
			return errors.New("no receive is outstanding")
		}
		if buf = q.rq[0]; buf.id != wc.ID {
			return fmt.Errorf("want that of %#x", buf.id)
		}
		q.rq = q.rq[1:]
	}
	msgs := q.fate.msgs[from]
	if len(msgs) == 0 {
		if q.fate.flushed > 0 && wc.Status == ibv.WCWRFlushErr {
			q.fate.flushed--
			return nil
		}
		return fmt.Errorf("no message was to come from link %d", from)
	}
	m := msgs[0]
	q.fate.msgs[from] = msgs[1:]
	var flags ibv.WCFlags
	imm := uint32(0)
	if m.hasImm {
		flags, imm = ibv.WCWithImm, m.imm
	}
	got := wc.Flags
	if q.l.typ == ibv.UD {
		flags |= ibv.WCGRH
	} else {
		got &^= ibv.WCGRH // means nothing here
	}
	switch {
	case wc.Status != m.status:
		return fmt.Errorf("want %v", m.status)
	case m.status != ibv.WCSuccess:
		return nil
	case wc.Opcode != m.opcode:
		return fmt.Errorf("want %v", m.opcode)
	case wc.ByteLen != uint32(m.n):
		return fmt.Errorf("want %d bytes", m.n)
	case got != flags:
		return fmt.Errorf("want flags %v", flags)
	case m.hasImm && wc.Imm != imm:
		return fmt.Errorf("want imm %#x", imm)
	}
	return s.deliver(i, q, buf, &m)
}

// deliver puts a message in the model's memory.
func (s *station) deliver(i int, q *end, buf *rbuf, m *message) error {
	if m.data == nil {
		return nil
	}
	image, real := s.m.mem[i][s.e], q.mem.b
	if q.l.srq {
		image, real = s.srqImage, s.srqMem.b
	}
	grh, data := 0, m.data
	if q.l.typ == ibv.UD {
		grh = 40 // not compared
		if err := q.mem.load(); err != nil {
			return err
		}
	}
	for _, p := range buf.pieces {
		k := min(grh, p.n)
		copy(image[p.off:][:k], real[p.off:])
		grh -= k
		n := copy(image[p.off+k:p.off+p.n], data)
		data = data[n:]
	}
	return nil
}

// settle compares memory and removes used receives from the model.
func (s *station) settle(rd *round, used [][2]int) error {
	for i, q := range s.qps {
		if err := q.mem.load(); err != nil {
			return err
		}
		if q.fate.skip && !q.l.srq { // in the order of posting
			for k, m := range q.fate.msgs[i] {
				if len(m.data) > 64 {
					if err := s.deliver(i, q, q.rq[k], &m); err != nil {
						return err
					}
					continue
				}
				for _, p := range q.rq[k].pieces { // it may have been in the completion
					copy(s.m.mem[i][s.e][p.off:][:p.n], q.mem.b[p.off:])
				}
			}
		}
		for _, t := range q.fate.events {
			if s.p.emulated {
				if err := s.h.expect(t, q.qp); err != nil {
					return fmt.Errorf("link %d: %w", i, err)
				}
			}
		}
	}
	for e := range 2 {
		for i, l := range s.g.links {
			if l.srq {
				continue
			}
			for range used[i][e] {
				s.m.free[i][e] = append(s.m.free[i][e], s.m.rq[i][e][0].slot)
				s.m.rq[i][e] = s.m.rq[i][e][1:]
			}
		}
		for k := range rd.srqUsed[e] {
			b := s.m.srq[e][k]
			if e == s.e && !s.used[b] {
				if !slices.ContainsFunc(s.qps, func(q *end) bool { return q.l.srq && q.fate.skip }) {
					return fmt.Errorf("the SRQ did not use receive %#x, which was next", b.id)
				}
				for _, p := range b.pieces { // its completion was never polled
					copy(s.srqImage[p.off:][:p.n], s.srqMem.b[p.off:])
				}
			}
			s.m.srqF[e] = append(s.m.srqF[e], b.slot)
			delete(s.used, b)
		}
		s.m.srq[e] = s.m.srq[e][rd.srqUsed[e]:]
	}
	if len(s.used) > 0 {
		return fmt.Errorf("the SRQ used %d receives out of order", len(s.used))
	}
	if s.srqMem != nil {
		if err := compare(s.srqMem.b, s.srqImage, nil); err != nil {
			return fmt.Errorf("memory of the SRQ: %w", err)
		}
	}
	for i, q := range s.qps {
		if err := compare(q.mem.b, s.m.mem[i][s.e], q.l); err != nil {
			return fmt.Errorf("memory of link %d: %w", i, err)
		}
	}
	switch {
	case rd.fires[s.e]:
		return s.h.expect(ibv.EventSRQLimitReached, s.srq)
	case rd.limit[s.e] > 0:
		return s.srq.SetLimit(0)
	}
	return nil
}

func compare(got, want []byte, l *link) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range got {
		if got[i] != want[i] {
			n := 0
			for k := i; k < len(got); k++ {
				if got[k] != want[k] {
					n++
				}
			}
			where := "receives"
			if l != nil && i < l.recv() {
				where = [...]string{"what is sent", "results", "what the peer accesses"}[i/l.area]
			}
			return fmt.Errorf("byte %#x (%s) is %#x, want %#x; %d bytes differ", i, where, got[i], want[i], n)
		}
	}
	return nil
}

// renew resets the QPs that failed or replaces them, and connects them again.
func (s *station) renew(rd *round) error {
	any := false
	for i, q := range s.qps {
		if !q.fate.renew {
			continue
		}
		any = true
		if q.fate.stream {
			s.note("reset of a stream", i, nil, nil)
			if err := mlx5dv.ResetDCIStream(q.qp, q.fate.failed); err != nil {
				return err
			}
		} else if q.fate.rebuild {
			s.note("close", i, nil, nil)
			num := q.qp.Num()
			if err := q.qp.Close(); err != nil {
				return err
			}
			s.send.remove(num, q.box)
			s.recv.remove(num, q.box)
			if err := s.make(q); err != nil {
				return err
			}
		} else {
			s.note("reset", i, nil, nil)
			if err := q.qp.Modify(&ibv.QPAttr{State: ibv.StateReset}, ibv.MaskState); err != nil {
				return err
			}
			s.send.clear(q.box)
			s.recv.clear(q.box)
		}
	}
	if !any {
		return nil
	}
	for i := range s.qps {
		for e := range 2 {
			if !rd.fates[i][e].renew {
				continue
			}
			s.m.bound[i][e] = false
			if l := s.g.links[i]; !l.srq && l.typ != ibv.DCI {
				s.m.drop(i, e)
			}
		}
	}
	return s.connect(func(i int) bool { return s.qps[i].fate.renew })
}

// close destroys everything.
func (s *station) close() error {
	var errs []error
	closing := func(c interface{ Close() error }) { errs = append(errs, c.Close()) }
	for _, q := range s.qps {
		closing(q.qp)
		s.send.remove(q.qp.Num(), q.box)
		s.recv.remove(q.qp.Num(), q.box)
		if q.ah != nil {
			closing(q.ah)
		}
		errs = append(errs, q.windows.close(), q.target.close())
		closing(q.mem)
	}
	if s.srq != nil {
		closing(s.srq)
		closing(s.srqMem)
	}
	if !s.g.shared {
		n, err := s.send.cq.Poll(s.send.wcs[:])
		if err != nil || n != 0 {
			errs = append(errs, fmt.Errorf("%d completions after all QPs were closed: %w", n, err))
		}
		closing(s.send.cq)
	}
	if s.recv != s.send {
		closing(s.recv.cq)
	}
	if s.xrcd != nil {
		closing(s.xrcd)
	}
	if s.td != nil {
		closing(s.pd)
		closing(s.td)
	}
	closing(s.base)
	return errors.Join(errs...)
}
