//go:build linux

package engine

import (
	"bytes"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// change is a UMR of an indirect key.
type change struct {
	mask    uint64
	access  byte
	entries []byte
	length  uint64
	low     byte // of the key
	free    bool
	octo    int // entries of 16 bytes, if they are not those of entries
}

func (c change) bytes() []byte {
	ctrl, ctx := make([]byte, 48), make([]byte, 64)
	ctrl[0] = 1 << 7
	body := append([]byte(nil), c.entries...)
	body = append(body, make([]byte, -len(body)&63)...)
	n := len(body) / 16
	if c.octo != 0 {
		n = c.octo
	}
	be.PutUint16(ctrl[4:], uint16(n))
	be.PutUint64(ctrl[8:], c.mask)
	ctx[2] = c.access
	if c.free {
		ctx[0] = 1 << 6
	}
	be.PutUint32(ctx[4:], 0xffffff00|uint32(c.low))
	be.PutUint64(ctx[24:], c.length)
	return append(append(ctrl, ctx...), body...)
}

const (
	mkeyMask   = 1<<29 | 1<<13 | 1 | 15<<18
	mkeyRights = 15 << 3
)

func (n *node) mkey(t *testing.T, octowords uint32) *hca.MKey {
	t.Helper()
	k, destroy, e := hca.CreateIndirect(n.ctx, n.pd.Num, hca.IndirectKey{Octowords: octowords, PeerMayFree: true})
	if e != 0 {
		t.Fatal(e)
	}
	t.Cleanup(func() { destroy() })
	return k
}

// What a change of a key must not be, and what remains of the key.
func TestMkeyRefusals(t *testing.T) {
	for name, spoil := range map[string]func(c *change){
		"no free bit":       func(c *change) { c.mask &^= 1 << 29 },
		"no length bit":     func(c *change) { c.mask &^= 1 },
		"another length":    func(c *change) { c.length++ },
		"too many entries":  func(c *change) { c.entries = bytes.Repeat(c.entries, 5); c.length *= 5 },
		"entries not there": func(c *change) { c.octo = 8 },
		"nothing":           func(c *change) { c.entries = make([]byte, 64) },
		"what comes behind": func(c *change) { c.entries = append(append(c.entries, make([]byte, 16)...), 1) },
		"a head of nothing": func(c *change) {
			c.entries = seg(uint32(0), uint32(0x400), uint32(1), uint16(0), uint16(0))
		},
		"a wrong sum": func(c *change) {
			c.entries = append(seg(uint32(9), uint32(0x400), uint32(1), uint16(0), uint16(1)),
				seg(uint16(8), uint16(8), uint32(0x100), uint64(0))...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, qpOpts{}, nil)
			k := p.a.mkey(t, 4)
			c := change{mask: mkeyMask, access: mkeyRights, entries: p.ma.sge(0, 100), length: 100}
			p.qa.send(opUMR, signaled, k.Key, c.bytes())
			p.acq.want(0, -1)
			p.r.clean()
			spoil(&c)
			p.qa.send(opUMR, signaled, k.Key, c.bytes())
			p.acq.wantErr(cqeReqErr, synMWBind)
			if k.Free || k.Len != 100 {
				t.Errorf("the key is changed: free %v, %d bytes", k.Free, k.Len)
			}
		})
	}
}

// Who may use an indirect key, for what, and until when.
func TestMkeyUse(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	k := p.b.mkey(t, 4)
	set := func(c change) {
		t.Helper()
		p.qb.send(opUMR, signaled, k.Key, c.bytes())
		p.bcq.want(0, -1)
	}
	refused := func(op uint8, addr uint64, n int) {
		t.Helper()
		p.r.clean()
		p.qa.send(op, signaled, 0, raddr(addr, k.Key), p.ma.sge(0, n))
		p.acq.wantErr(cqeReqErr, synRemoteAccess)
		connectAgain(p)
	}
	refused(opWrite, 0, 8) // without a layout
	set(change{mask: mkeyMask, access: mkeyRights, entries: append(p.mb.sge(8, 8), p.mb.sge(64, 8)...), length: 16})
	fill(p.ma.buf[:16], 3)
	remote, key := uint64(0), k.Key
	p.qa.send(opWrite, signaled, 0, raddr(remote, key), p.ma.sge(0, 16))
	p.acq.want(0, -1)
	if !bytes.Equal(p.mb.buf[8:16], p.ma.buf[:8]) || !bytes.Equal(p.mb.buf[64:72], p.ma.buf[8:16]) {
		t.Error("the pieces have not what was written")
	}
	refused(opWrite, 1, 16)
	p.qa.send(opAtomicFA, signaled, 0, raddr(8, key), seg(uint64(1), uint64(0)), p.ma.sge(0, 8))
	p.acq.want(0, 8)
	set(change{mask: 1<<29 | 15<<18, access: 1 << 4}) // reading only
	refused(opWrite, 0, 8)
	p.qa.send(opRead, signaled, 0, raddr(0, key), p.ma.sge(0, 16))
	p.acq.want(0, 16)

	inner := p.b.mkey(t, 4)
	set(change{mask: mkeyMask, access: mkeyRights, entries: seg(uint32(16), inner.Key, uint64(0)), length: 16})
	refused(opRead, 0, 8) // the inner one stands for nothing
	set(change{mask: mkeyMask, access: mkeyRights, entries: seg(uint32(16), k.Key, uint64(0)), length: 16})
	refused(opRead, 0, 8) // it stands for itself

	set(change{mask: mkeyMask, access: mkeyRights, entries: p.mb.sge(8, 8), length: 8})
	p.qb.recv(p.mb.sge(0, 64))
	p.qa.send(opSendInval, signaled, k.Key, p.ma.sge(0, 8))
	p.acq.want(0, -1)
	p.bcq.want(cqeRespSendInv, 8)
	refused(opRead, 0, 8)
}

// connectAgain brings both QPs of a pair up again.
func connectAgain(p *pair) {
	p.r.settle()
	for _, q := range []*qp{p.qa, p.qb} {
		q.modify(&hca.QPAttr{}, 0, hca.Reset)
		q.pi, q.head = 0, 0
		be.PutUint64(q.db, 0)
	}
	connect(p.attributes, p.qa, p.qb)
}

// What a copy must not be.
func TestCopyRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		mod  byte
		may  bool
		note func(p *pair) []byte
		n    [2]int
		syn  uint8
	}{
		"another modifier":  {2, true, nil, [2]int{8, 8}, synLocalQPOp},
		"without the right": {mmoDMA, false, nil, [2]int{8, 8}, synLocalQPOp},
		"two lengths":       {mmoDMA, true, nil, [2]int{8, 9}, synLocalLength},
		"notes nowhere": {mmoDMA, true, func(*pair) []byte { return seg(uint32(0), uint32(1), uint64(0)) },
			[2]int{8, 8}, synLocalProt},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, qpOpts{}, nil)
			p.qa.q.Extra.MayCopy = c.may
			note := seg(uint32(0), p.ma.key.Key, va(p.ma.buf)+4096)
			if c.note != nil {
				note = c.note(p)
			}
			p.r.clean()
			p.qa.sendMod(opMMO, c.mod, signaled, 0, note, p.ma.sge(0, c.n[0]), p.ma.sge(64, c.n[1]))
			p.acq.wantErr(cqeReqErr, c.syn)
		})
	}
	p := newPair(t, qpOpts{}, nil)
	p.r.clean()
	p.qa.send(opSetPSV, signaled, 0, seg(uint32(12345), uint32(0), uint64(0)))
	p.acq.wantErr(cqeReqErr, synLocalQPOp)
	for op, segs := range map[uint8][]byte{opMMO: make([]byte, 32), opSetPSV: make([]byte, 32)} {
		p := newPair(t, qpOpts{}, nil)
		p.qa.send(op, signaled, 0, segs)
		p.acq.wantErr(cqeReqErr, synLocalQPOp)
		if !p.r.violated(RuleWQEFormat) {
			t.Errorf("opcode %#x of another size is no finding of strict mode", op)
		}
	}
}

// TestSignatureStops has a QP that stops at a wrong signature: what follows is canceled, or executed in RTS.
func TestSignatureStops(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	k := p.a.mkey(t, 4)
	c := change{mask: mkeyMask, access: mkeyRights, entries: p.ma.sge(0, 516), length: 516}
	p.qa.send(opUMR, signaled, k.Key, c.bytes())
	p.acq.want(0, -1)
	k.Sig = &hca.Signature{Check: 0xff, Memory: hca.SigDomain{Block: 512, CRC: bfsCRC32}}
	fill(p.ma.buf[:512], 1) // and no signature behind it
	remote, rkey := p.mb.at(0)
	write := func(flags uint8) { p.qa.post(opWrite, flags, 0, raddr(remote, rkey), sgeSeg(k.Key, 0, 512)) }

	p.qa.q.Extra.DrainSigErr = true
	p.qb.recv(p.mb.sge(4096, 64))
	write(0)
	p.qa.send(opSend, signaled, 0, p.ma.sge(600, 8))
	p.acq.want(cqeSigErr, -1)
	p.acq.none()
	p.bcq.none()
	if p.qa.q.State != hca.SQD || p.r.event(hca.EventSQDrained) != 1 || !bytes.Equal(p.mb.buf[:512], p.ma.buf[:512]) {
		t.Errorf("the QP is in %v, events %v", p.qa.q.State, p.r.events)
	}
	at := int(p.qa.q.Run.Tail) * 64 % len(p.qa.sq)
	p.qa.sq[at+3] = opNOP // canceled
	p.qa.send(opSend, signaled, 0, p.ma.sge(700, 8))
	p.acq.none()
	p.qa.modify(&hca.QPAttr{CurState: hca.SQD}, hca.AttrCurState, hca.RTS) // the driver knows nothing of it
	if v := p.acq.want(0, -1); v.wqeOp() != opNOP {
		t.Errorf("opcode %#x where one was canceled", v.wqeOp())
	}
	p.acq.want(0, -1)
	p.bcq.want(cqeRespSend, 8)
	p.r.clean()

	// Without the flag, or once it was told, the queue goes on.
	write(signaled)
	p.qa.ring()
	p.acq.want(0, -1)
	k.SigTold, p.qa.q.Extra.DrainSigErr = false, false
	write(signaled)
	p.qa.ring()
	p.acq.want(cqeSigErr, -1)
	p.acq.want(0, -1)
	if p.qa.q.State != hca.RTS || p.r.event(hca.EventSQDrained) != 1 {
		t.Errorf("the QP is in %v, events %v", p.qa.q.State, p.r.events)
	}
	p.r.clean()
}
