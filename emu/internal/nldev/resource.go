//go:build linux

package nldev

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/cm"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Attributes of resources. C: enum rdma_nldev_attr.
const (
	attrSummary      = 15
	attrSummaryEntry = 16
	attrSummaryName  = 17
	attrSummaryCurr  = 18
	attrQP           = 19
	attrQPEntry      = 20
	attrLQPN         = 21
	attrRQPN         = 22
	attrRQPSN        = 23
	attrSQPSN        = 24
	attrPathMigState = 25
	attrType         = 26
	attrState        = 27
	attrPID          = 28
	attrCMID         = 30
	attrCMIDEntry    = 31
	attrPS           = 32
	attrSrcAddr      = 33
	attrDstAddr      = 34
	attrCQ           = 35
	attrCQEntry      = 36
	attrCQE          = 37
	attrUses         = 38
	attrMR           = 40
	attrMREntry      = 41
	attrRKey         = 42
	attrLKey         = 43
	attrMRLen        = 45
	attrPD           = 46
	attrPDEntry      = 47
	attrLocalDMAKey  = 48
	attrPDN          = 60
	attrCQN          = 61
	attrMRN          = 62
	attrCMIDN        = 63
	attrCtxN         = 64
	attrDIM          = 84
	attrCtx          = 86
	attrCtxEntry     = 87
	attrSRQ          = 88
	attrSRQEntry     = 89
	attrSRQN         = 90
)

// table is a kind of resource: the attributes of the list, of an entry, and of the number that names one.
type table struct {
	name            string
	list, entry, id uint16
	one             func(r *request, o any) (number uint32, put func()) // nil for an object that is none
	ofPort          bool                                                // a request may name a port
}

// tables are the kinds by the command that asks for them.
var tables = map[int]*table{
	10: {"qp", attrQP, attrQPEntry, attrLQPN, of(qpn, (*request).qp), true},
	11: {"cm_id", attrCMID, attrCMIDEntry, attrCMIDN, of(idn, (*request).cmID), true},
	12: {"cq", attrCQ, attrCQEntry, attrCQN, of(cqn, (*request).cq), false},
	13: {"mr", attrMR, attrMREntry, attrMRN, of(mrn, (*request).mr), false},
	14: {"pd", attrPD, attrPDEntry, attrPDN, of(pdn, (*request).pd), false},
	22: {"ctx", attrCtx, attrCtxEntry, attrCtxN, of(ctxn, (*request).ctx), false},
	23: {"srq", attrSRQ, attrSRQEntry, attrSRQN, of(srqn, (*request).srq), false},
}

// of is what table.one is for objects that are a T. number returns the number of one that is a resource.
func of[T any](number func(*T) (n uint32, ok bool), put func(*request, *T)) func(*request, any) (uint32, func()) {
	return func(r *request, o any) (uint32, func()) {
		if v, is := o.(*T); is {
			if n, ok := number(v); ok {
				return n, func() { put(r, v) }
			}
		}
		return 0, nil
	}
}

func qpn(qp *hca.QP) (uint32, bool)      { return qp.Num, true }
func idn(i *cm.Info) (uint32, bool)      { return i.Num, true }
func cqn(cq *hca.CQ) (uint32, bool)      { return cq.Num, true }
func mrn(k *hca.MKey) (uint32, bool)     { return k.Key >> 8, k.Kind == hca.KeyMR }
func pdn(pd *hca.PD) (uint32, bool)      { return pd.Num, true }
func ctxn(c *hca.Context) (uint32, bool) { return uint32(c.ID), c.Ready }
func srqn(s *hca.SRQ) (uint32, bool)     { return s.Num, true }

// portOf returns the port that an object is at, 0 for none.
func portOf(o any) int {
	switch o := o.(type) {
	case *hca.QP:
		return int(o.Attr.Port)
	case *cm.Info:
		if o.Port != nil {
			return o.Port.Number
		}
	}
	return 0
}

// each calls do for all resources of a kind; for those of a port alone, unless that is 0 or the kind has none.
func (r *request) each(d *hca.Device, t *table, port int, do func(number uint32, put func())) {
	see := func(o any) {
		n, put := t.one(r, o)
		at := portOf(o)
		if put == nil || t.ofPort && port != 0 && port != at {
			return
		}
		do(n, func() {
			if at != 0 {
				r.U32(attrPortIndex, uint32(at))
			}
			put()
		})
	}
	var last *hca.Context
	d.Tracked(func(c *hca.Context, o any) {
		if c != last {
			last = c
			see(c)
		}
		see(o)
	})
	if r.s.CM != nil {
		r.s.CM.Each(func(i *cm.Info) {
			if i.Port != nil && i.Port.Device == d || i.Port == nil && i.Listens {
				see(i)
			}
		})
	}
}

// summary counts the resources of a device, in the kernel's order.
func (r *request) summary(d *hca.Device) {
	r.about(d, func() {
		r.Nest(attrSummary, func() {
			for _, cmd := range []int{14, 12, 10, 11, 13, 22, 23} {
				t, n := tables[cmd], uint64(0)
				r.each(d, t, 0, func(uint32, func()) { n++ })
				r.Nest(attrSummaryEntry, func() {
					r.Text(attrSummaryName, t.name)
					r.U64(attrSummaryCurr, n)
				})
			}
		})
	})
}

// table answers for all resources of a kind, in messages that fit, or for the one whose number the request names.
func (r *request) table(d *hca.Device, t *table, port int) unix.Errno {
	if !r.dumps() {
		id, ok := r.num[t.id]
		if !ok || port != 0 && !t.ofPort {
			return unix.EINVAL
		}
		var found func()
		r.each(d, t, port, func(n uint32, put func()) {
			if n == uint32(id) {
				found = put
			}
		})
		if found == nil {
			return unix.ENOENT
		}
		r.about(d, found)
		return 0
	}
	var entries []byte
	flush := func() {
		if len(entries) > 0 {
			r.about(d, func() { r.Attr(t.list, entries) })
		}
		entries = nil
	}
	r.each(d, t, port, func(_ uint32, put func()) {
		kept := r.Message
		r.Message = nil
		r.Nest(t.entry, put)
		one := r.Message
		r.Message = kept
		if len(entries)+len(one) > most-200 { // the header and the device
			flush()
		}
		entries = append(entries, one...)
	})
	flush()
	return 0
}

func (r *request) pid(pid int) {
	if pid != 0 {
		r.U32(attrPID, uint32(pid))
	}
}

func (r *request) qp(qp *hca.QP) {
	a := &qp.Attr
	r.U32(attrLQPN, qp.Num)
	if qp.PD != nil {
		r.U32(attrPDN, qp.PD.Num)
	}
	r.pid(qp.Context.PID)
	connected := qp.Type == hca.RC || qp.Type == hca.UC
	if connected {
		r.U32(attrRQPN, a.DestQPN)
		r.U32(attrRQPSN, a.RQPSN)
	}
	r.U32(attrSQPSN, a.SQPSN)
	if connected || qp.Type == hca.XRCSend || qp.Type == hca.XRCRecv {
		r.Attr(attrPathMigState, []byte{a.PathMigState})
	}
	typ := qp.Type
	if typ == hca.DCI || typ == hca.DCT {
		typ = hca.DriverQP
	}
	r.Attr(attrType, []byte{byte(typ)})
	r.Attr(attrState, []byte{byte(qp.State)})
}

func (r *request) cmID(i *cm.Info) {
	if i.QPN != 0 {
		r.U32(attrLQPN, i.QPN)
		r.Attr(attrType, []byte{byte(i.Type)})
	}
	r.U32(attrPS, uint32(i.PS))
	r.Attr(attrState, []byte{i.State})
	if i.Src != nil {
		r.Attr(attrSrcAddr, i.Src)
	}
	if i.Dst != nil {
		r.Attr(attrDstAddr, i.Dst)
	}
	r.U32(attrCMIDN, i.Num)
	r.pid(i.PID)
}

func (r *request) cq(cq *hca.CQ) {
	r.U32(attrCQE, cq.Entries-1)
	r.U64(attrUses, uint64(cq.Uses()))
	r.Attr(attrDIM, []byte{0})
	r.U32(attrCQN, cq.Num)
	r.U32(attrCtxN, uint32(cq.Context.ID))
	r.pid(cq.Context.PID)
}

func (r *request) mr(k *hca.MKey) {
	if r.admin {
		r.U32(attrRKey, k.Key)
		r.U32(attrLKey, k.Key)
	}
	r.U64(attrMRLen, k.Len)
	r.U32(attrMRN, k.Key>>8)
	r.U32(attrPDN, k.PD.Num)
	r.pid(k.PD.Context.PID)
}

func (r *request) pd(pd *hca.PD) {
	if r.admin {
		r.U32(attrLocalDMAKey, 0) // a program's has none
	}
	r.U64(attrUses, uint64(pd.Uses()))
	r.U32(attrPDN, pd.Num)
	r.U32(attrCtxN, uint32(pd.Context.ID))
	r.pid(pd.Context.PID)
}

func (r *request) ctx(c *hca.Context) {
	r.U32(attrCtxN, uint32(c.ID))
	r.pid(c.PID)
}

func (r *request) srq(s *hca.SRQ) {
	r.U32(attrSRQN, s.Num)
	var typ byte // basic
	switch {
	case s.XRC:
		typ = 1
	case s.Tags != 0:
		typ = 2
	}
	r.Attr(attrType, []byte{typ})
	r.U32(attrPDN, s.PD.Num)
	if s.CQ != nil {
		r.U32(attrCQN, s.CQ.Num)
	}
	r.Nest(attrQP, func() {
		s.Context.Device.EachQP(func(qp *hca.QP) {
			if qp.SRQ == s && len(r.Message) < most/2 {
				r.Nest(attrQPEntry, func() { r.U32(attrLQPN, qp.Num) })
			}
		})
	})
	r.pid(s.Context.PID)
}
