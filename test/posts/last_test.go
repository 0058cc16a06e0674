//go:build linux

package posts

import (
	"fmt"
	"reflect"

	"github.com/pureverbs/pureverbs/ibv"
)

// remembered compares what QP.LastPosted says with the work requests that were posted last.
func (p *pair) remembered(jobs []*job) error {
	got, err := p.a.qp.LastPosted(len(jobs))
	if err != nil || len(got.Sends) != len(jobs) || len(got.Recvs) > 0 {
		return fmt.Errorf("the last %d posts are %v: %v", len(jobs), got, err)
	}
	for i, j := range jobs {
		s, want := &got.Sends[i], p.lastOf(j)
		known := p.engine.path == ibv.DataPathDirect
		if !known {
			want.ID = 0
		}
		want.Index, want.State, want.Status, want.VendorErr = s.Index, s.State, s.Status, s.VendorErr
		want.DeviceOpcode = s.DeviceOpcode
		if !reflect.DeepEqual(*s, want) || (s.State == ibv.PostedUnknown) == known || s.Len() != lengthOf(&j.wr) {
			return fmt.Errorf("the last posts have\n%+v, want\n%+v\n%+v, want %+v", *s, want, s.Change, want.Change)
		}
	}
	return nil
}

// lastOf is what can be known of a work request after it was posted.
func (p *pair) lastOf(j *job) (s ibv.PostedSend) {
	wr, op := &j.wr, j.wr.Opcode
	s.ID, s.Opcode, s.Flags = wr.ID, op, wr.Flags&(ibv.Fence|ibv.Signaled|ibv.Solicited)
	if p.signalAll {
		s.Flags |= ibv.Signaled
	}
	switch op {
	case ibv.OpSendImm, ibv.OpWriteImm:
		s.Imm = wr.Imm
	case ibv.OpSendInv, ibv.OpLocalInv:
		s.InvalidateRKey = wr.InvalidateRKey
	case ibv.OpCompareSwap:
		s.CompareAdd, s.Swap = wr.CompareAdd, wr.Swap
	case ibv.OpFetchAdd:
		s.CompareAdd = wr.CompareAdd
	case ibv.OpMaskedCompareSwap, ibv.OpMaskedFetchAdd:
		m := *wr.Masked
		m.Size = 8
		if op == ibv.OpMaskedFetchAdd {
			m.Mask[0] |= 1 << 63
			m.Compare, m.CompareMask = [4]uint64{}, [4]uint64{}
		}
		s.Masked = &m
	case ibv.OpBindMW:
		b := wr.Bind
		s.Change = &ibv.PostedChange{Key: p.window.key, NewKey: b.RKey, Length: b.Length}
		if b.Length > 0 {
			s.Change.LKey, s.Change.Addr, s.Change.Access = b.MR.LKey(), b.Addr, b.Access
		}
	}
	if names(p.typ, op) {
		s.RemoteQPN = wr.RemoteQPN
		if p.typ == ibv.UD {
			s.RemoteQKey = wr.RemoteQKey
		} else {
			s.DCKey = wr.DCKey
		}
	}
	if p.typ == ibv.XRCSend && in(op, dataOps) {
		s.RemoteSRQN = wr.RemoteSRQN
	}
	if in(op, remoteOps) {
		s.Remote = wr.Remote
	}
	if j.copies() {
		if s.InlineLen = int(lengthOf(wr)); s.InlineLen > 0 {
			s.Flags |= ibv.Inline
		}
		return s
	}
	for _, sge := range wr.SGEs {
		if sge.Length > 0 {
			s.SGEs = append(s.SGEs, sge)
		}
	}
	return s
}

func lengthOf(wr *ibv.SendWR) uint64 {
	n := uint64(len(wr.Inline))
	for _, sge := range wr.SGEs {
		n += uint64(sge.Length)
	}
	return n
}
