//go:build linux

package posts

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

const patience = testutil.Patience // for an expected completion; it only ends a test that hangs

const (
	grh = 40

	// a's memory: what is sent, and where results go.
	sizeA = 1024
	// b's memory: what is written and read, then slots for receives.
	sizeB    = 1024 + slots*slotSize
	slots    = 12
	slotSize = 256
	depth    = 8 // receives posted
)

// host is a device.
type host struct {
	dev *ibv.Device
	pd  *ibv.PD
	pd2 *ibv.PD
}

// engine is what posts: a data path, with extended by ibv_wr_*.
type engine struct {
	path     ibv.DataPath
	extended bool
}

var engines = []engine{{ibv.DataPathOps, false}, {ibv.DataPathOps, true}, {ibv.DataPathDirect, false}}

func (e engine) String() string {
	if e.extended {
		return e.path.String() + " by ibv_wr_*"
	}
	return e.path.String()
}

// sendOps are the operations that a QP of the engine is created with.
func (e engine) sendOps(typ ibv.QPType) (ops ibv.SendOps) {
	if !e.extended {
		return 0
	}
	for _, op := range takes[typ] {
		ops |= sendOps[op]
	}
	return ops
}

var sendOps = map[ibv.Opcode]ibv.SendOps{
	ibv.OpWrite: ibv.SendOpWrite, ibv.OpWriteImm: ibv.SendOpWriteImm, ibv.OpSend: ibv.SendOpSend,
	ibv.OpSendImm: ibv.SendOpSendImm, ibv.OpRead: ibv.SendOpRead, ibv.OpCompareSwap: ibv.SendOpCompareSwap,
	ibv.OpFetchAdd: ibv.SendOpFetchAdd, ibv.OpLocalInv: ibv.SendOpLocalInv,
	ibv.OpBindMW: ibv.SendOpBindMW, ibv.OpSendInv: ibv.SendOpSendInv,
}

// recv is a receive that is posted.
type recv struct {
	id   uint64
	sges []ibv.SGE
}

// end is one end of a pair.
type end struct {
	*host
	qp    *ibv.QP
	cq    *ibv.CQ
	srq   *ibv.SRQ
	xrcd  *ibv.XRCD
	mr    *ibv.MR
	at    ibv.Endpoint
	image []byte   // what the memory has to hold
	want  []ibv.WC // completions that have to come
	got   []ibv.WC
	recvs []recv // outstanding
	slot  int
}

// pair is two connected QPs: a posts, b receives.
type pair struct {
	t      *table
	engine engine
	typ    ibv.QPType
	kind
	a, b    *end
	batch   *ibv.Batch // one for all cells
	ah      map[way]*ibv.AH
	window  window
	small   bool   // the next work request has the small fence
	srqn    uint32 // of b's SRQ, with XRC
	failed  bool   // a's QP, in the model
	starts  int    // how often something was posted
	headers []recv // receives of datagrams since the last look, whose first 40 bytes are not compared
	id      uint64
	idle    int // refused cells since anything was posted
	cell    string
	fields  ibv.WCFields // of the CQs; with any they are polled as extended ones
	bare    bool         // no receives are posted but those of the cells
}

func (p *pair) String() string {
	return fmt.Sprintf("%v %v (%v), fields %v", p.engine, p.typ, p.kind, p.fields)
}

func newEnd(h *host, by engine, typ ibv.QPType, k kind, size int, fields ibv.WCFields) (*end, error) {
	e := &end{host: h, image: make([]byte, size)}
	var err error
	e.cq, err = h.dev.CreateCQ(64, &ibv.CQOptions{DataPath: by.path, NoEvents: true, Fields: fields})
	if err != nil {
		return nil, err
	}
	if e.mr, err = h.pd.AllocMR(size, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead|ibv.RemoteAtomic|
		ibv.MWBind, nil); err != nil {
		return nil, err
	}
	o := &ibv.QPOptions{Type: typ, MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: k.inline,
		SignalAll: k.signalAll, SendOps: by.sendOps(typ)}
	switch typ {
	case ibv.XRCSend:
		e.qp, err = h.pd.CreateQP(e.cq, nil, o)
		return e, err
	case ibv.XRCRecv:
		if e.xrcd, err = h.dev.OpenXRCD(nil, 0); err != nil {
			return nil, err
		}
		if e.srq, err = h.pd.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQXRC, MaxWR: 16, MaxSGE: 2, XRCD: e.xrcd,
			CQ: e.cq}); err != nil {
			return nil, err
		}
		e.qp, err = e.xrcd.CreateQP()
		return e, err
	}
	if k.srq {
		if e.srq, err = h.pd.CreateSRQ(&ibv.SRQOptions{MaxWR: 16, MaxSGE: 2, DataPath: by.path}); err != nil {
			return nil, err
		}
		o.SRQ = e.srq
	}
	switch typ {
	case ibv.DCI:
		if o.SRQ != nil {
			o.Type, o.SendOps = ibv.DCT, 0
			e.qp, err = mlx5dv.CreateQP(h.pd, nil, e.cq, &mlx5dv.QPOptions{QPOptions: *o,
				DC: &mlx5dv.DCOptions{AccessKey: dcKey}})
		} else {
			e.qp, err = mlx5dv.CreateQP(h.pd, e.cq, nil, &mlx5dv.QPOptions{QPOptions: *o})
		}
	default:
		e.qp, err = h.pd.CreateQP(e.cq, e.cq, o)
	}
	return e, err
}

const dcKey = 0x8899aabbccddeeff

func (t *table) newPair(by engine, typ ibv.QPType, k kind) (*pair, error) {
	return t.newPairWith(by, typ, k, 0)
}

// newPairWith is newPair with CQs that have Fields.
func (t *table) newPairWith(by engine, typ ibv.QPType, k kind, fields ibv.WCFields) (*pair, error) {
	p := &pair{t: t, engine: by, typ: typ, kind: k, ah: make(map[way]*ibv.AH), fields: fields}
	var err error
	peer := typ
	switch typ {
	case ibv.XRCSend:
		peer, p.kind.srq = ibv.XRCRecv, true
	case ibv.DCI: // it does not receive, and b is a DCT
		p.kind.srq, k.srq = true, false
	}
	if p.a, err = newEnd(t.hosts[0], by, typ, k, sizeA, fields); err != nil {
		return nil, err
	}
	if typ == ibv.DCI {
		k = p.kind
	}
	if p.b, err = newEnd(t.hosts[1], by, peer, k, sizeB, fields); err != nil {
		return nil, err
	}
	if typ == ibv.XRCSend {
		if p.srqn, err = p.b.srq.Num(); err != nil {
			return nil, err
		}
	}
	for _, e := range []*end{p.a, p.b} {
		if e.at, err = e.qp.Endpoint(t.rxe.Port, t.rxe.GID); err != nil {
			return nil, err
		}
	}
	if typ != ibv.UD && typ != ibv.DCI {
		if p.window.mw, err = p.a.pd.AllocMW(ibv.MWType2); err != nil {
			return nil, err
		}
		p.window.key = p.window.mw.RKey()
	}
	if typ == ibv.UD || typ == ibv.DCI {
		to, err := p.a.qp.Address(p.b.at, nil)
		if err != nil {
			return nil, err
		}
		for w, pd := range map[way]*ibv.PD{theAH: p.a.pd, otherPD: p.a.pd2, closedAH: p.a.pd} {
			if p.ah[w], err = pd.CreateAH(to); err != nil {
				return nil, err
			}
		}
		if err := p.ah[closedAH].Close(); err != nil {
			return nil, err
		}
	} else {
		// Not an opcode of this transport, but of another.
		p.ah[theAH] = t.anyAH
	}
	p.ah[longQPN] = p.ah[theAH]
	p.batch = p.a.qp.Batch()
	return p, p.connect()
}

// connect connects QPs in RESET, and posts receives.
func (p *pair) connect() error {
	o := &ibv.ConnectOptions{AckTimeout: ibv.TimeCode(8).Duration(), RetryCount: 2, RNRRetry: 2}
	if err := errors.Join(p.a.qp.Connect(p.b.at, o), p.b.qp.Connect(p.a.at, o)); err != nil {
		return err
	}
	return p.refill()
}

// refill posts receives, some of one SGE and some of two.
func (p *pair) refill() error {
	if p.bare {
		return nil
	}
	var wrs []ibv.RecvWR
	for n := depth - len(p.b.recvs); n > 0; n-- {
		at := 1024 + p.b.slot*slotSize
		r := recv{id: 1<<32 + p.nextID(), sges: []ibv.SGE{p.b.mr.SGE(at, slotSize)}}
		if p.b.slot%2 == 1 {
			r.sges = []ibv.SGE{p.b.mr.SGE(at, grh+7), p.b.mr.SGE(at+grh+7, slotSize-grh-7)}
		}
		p.b.slot = (p.b.slot + 1) % slots
		p.b.recvs = append(p.b.recvs, r)
		wrs = append(wrs, ibv.RecvWR{ID: r.id, SGEs: r.sges})
	}
	if len(wrs) == 0 {
		return nil
	}
	post := p.b.qp.PostRecv
	if p.srq {
		post = p.b.srq.PostRecv
	}
	if n, err := post(wrs); n != len(wrs) || err != nil {
		return fmt.Errorf("post receives: %d of %d: %v", n, len(wrs), err)
	}
	return nil
}

func (p *pair) nextID() uint64 { p.id++; return p.id }

// marker is a work request that is valid whatever was posted before it.
func (p *pair) marker() *job {
	j := &job{wr: ibv.SendWR{ID: 1<<40 + p.nextID(), Opcode: ibv.OpSendImm, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{p.a.mr.SGE(900, 12)}, Imm: uint32(p.id) * 0x01030507, RemoteSRQN: p.srqn}}
	p.address(&j.wr, theAH)
	return j
}

func (p *pair) address(wr *ibv.SendWR, w way) {
	if w == noAH {
		return
	}
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = p.ah[w], p.b.qp.Num(), ibv.DefaultQKey
	if p.typ == ibv.DCI {
		wr.DCKey = dcKey
	}
	if w == longQPN {
		wr.RemoteQPN |= 1 << 24
	}
}

// shuffle fills both memories with new contents.
func (p *pair) shuffle() {
	for i, e := range []*end{p.a, p.b} {
		off := int(p.id*17+uint64(i)*31) % 509
		copy(e.image, p.t.noise[off:])
		copy(e.mr.Bytes(), e.image)
	}
}

// end waits for the expected results of the cell and of the marker behind it, which shows that there are no others.
func (p *pair) end() error {
	for try := 0; ; try++ {
		if err := p.compare(); err != nil {
			return fmt.Errorf("try %d: %v", try, err)
		}
		p.idle = 0
		if !p.failed {
			return p.refill()
		}
		if err := p.renew(); err != nil {
			return err
		}
		if err := p.mark(); err != nil {
			return err
		}
	}
}

// mark posts a good work request.
func (p *pair) mark() error {
	m := p.marker()
	if !names(p.typ, m.wr.Opcode) {
		m.wr.AH = nil
	}
	if n, err := p.a.qp.PostSend([]ibv.SendWR{m.wr}); n != 1 || err != nil {
		return fmt.Errorf("a good work request after it: %d, %v", n, err)
	}
	p.execute(m)
	return nil
}

// renew connects the QPs again.
func (p *pair) renew() error {
	p.t.renewed++
	for _, e := range []*end{p.a, p.b} {
		if e.qp.Type() == ibv.DCT { // it did not notice
			if err := p.collect(e); err != nil {
				return err
			}
		} else if err := e.qp.Modify(&ibv.QPAttr{State: ibv.StateReset}, ibv.MaskState); err != nil {
			return err
		}
		e.want, e.got = e.want[:0], e.got[:0]
	}
	p.failed = false
	if !p.srq {
		p.b.recvs = nil
	}
	return p.connect()
}

func (p *pair) compare() error {
	for _, e := range []*end{p.a, p.b} {
		if err := p.collect(e); err != nil {
			return err
		}
	}
	for _, r := range p.headers {
		left := grh
		for _, s := range r.sges {
			at, n := int(s.Addr-p.b.mr.Addr()), min(left, int(s.Length))
			left -= copy(p.b.image[at:at+n], p.b.mr.Bytes()[at:])
		}
	}
	p.headers = p.headers[:0]
	for i, e := range []*end{p.a, p.b} {
		if got := e.mr.Bytes(); !bytes.Equal(got, e.image) {
			at := 0
			for got[at] == e.image[at] {
				at++
			}
			return fmt.Errorf("memory of %c at %d is % x, want % x", 'a'+i, at, got[at:min(at+16, len(got))],
				e.image[at:min(at+16, len(got))])
		}
	}
	return nil
}

// collect waits for the completions of an end and compares them.
func (p *pair) collect(e *end) error {
	var wcs [8]ibv.WC
	var deadline time.Time
	for spins := 0; len(e.got) < len(e.want); spins++ {
		n, err := e.cq.Poll(wcs[:])
		if err != nil {
			return err
		}
		e.got = append(e.got, wcs[:n]...)
		if n > 0 {
			continue
		}
		if runtime.Gosched(); spins > 2000 {
			time.Sleep(20 * time.Microsecond)
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(patience)
		} else if time.Now().After(deadline) {
			p.t.Fatalf("%v: %s: after %v there are completions %+v of %s, want %+v", p, p.cell, patience,
				e.got, p.name(e),
				e.want)
		}
	}
	n, err := e.cq.Poll(wcs[:])
	if err != nil {
		return err
	}
	e.got = append(e.got, wcs[:n]...)
	for i := range e.got {
		if i >= len(e.want) {
			return fmt.Errorf("completion %d of %s was not to come: %+v", i, p.name(e), e.got[i])
		}
		got, want := e.got[i], e.want[i]
		want.QPN = e.qp.Num()
		if p.fields&ibv.FieldTimestamp != 0 && got.Status == ibv.WCSuccess && got.Timestamp == 0 {
			return fmt.Errorf("completion %d of %s has no timestamp: %+v", i, p.name(e), got)
		}
		if p.fields != 0 && p.engine.path == ibv.DataPathOps && !got.Opcode.IsRecv() && want.Flags != got.Flags {
			p.t.explain(extendedImm)
			want.Flags &^= ibv.WCWithImm
		}
		p.meaningful(&got)
		if got != want {
			return fmt.Errorf("completion %d of %s is %+v, want %+v", i, p.name(e), got, want)
		}
	}
	p.t.completions += len(e.got)
	e.got, e.want = e.got[:0], e.want[:0]
	return nil
}

// meaningful clears the fields of a completion that have no meaning or differ between runs.
func (p *pair) meaningful(wc *ibv.WC) {
	wc.Timestamp, wc.VendorErr, wc.FlowTag = 0, 0, 0
	if wc.Status != ibv.WCSuccess || !wc.Opcode.IsRecv() {
		return
	}
	wc.PKeyIndex, wc.SLID, wc.SL, wc.DLIDPathBits = 0, 0, 0, 0
	if p.typ != ibv.UD {
		wc.SrcQPN = 0
		wc.Flags &^= ibv.WCGRH
	}
}

func (p *pair) name(e *end) string {
	if e == p.a {
		return "a"
	}
	return "b"
}

func (p *pair) close() error {
	var errs []error
	for w, ah := range p.ah {
		if (p.typ == ibv.UD || p.typ == ibv.DCI) && w != longQPN && w != closedAH {
			errs = append(errs, ah.Close())
		}
	}
	if p.window.mw != nil {
		errs = append(errs, p.window.mw.Close())
	}
	for _, e := range []*end{p.a, p.b} {
		errs = append(errs, e.qp.Close())
		if e.srq != nil {
			errs = append(errs, e.srq.Close())
		}
		if e.xrcd != nil {
			errs = append(errs, e.xrcd.Close())
		}
		errs = append(errs, e.cq.Close(), e.mr.Close())
	}
	return errors.Join(errs...)
}

func openHosts(rxe testutil.RXE) (hs [2]*host, err error) {
	for i := range hs {
		h := &host{}
		if h.dev, err = ibv.Open(rxe.Dev[i]); err != nil {
			return hs, err
		}
		if h.pd, err = h.dev.AllocPD(); err != nil {
			return hs, err
		}
		if h.pd2, err = h.dev.AllocPD(); err != nil {
			return hs, err
		}
		hs[i] = h
	}
	return hs, nil
}

func (h *host) close() error { return errors.Join(h.pd.Close(), h.pd2.Close(), h.dev.Close()) }
