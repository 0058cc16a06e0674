//go:build linux

package verbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// A TIR leads to a WQ, may be where the frames of a rule go, and keeps both from being destroyed.
func TestTIR(t *testing.T) {
	const ns = uapi.DriverNS
	p := openDevX(t, "mlx5_0")
	w, e := p.wq(wqInit{pd: p.pd(), cq: p.cq(10, -1), count: 8, shift: 6})
	p.must(e)
	num := int(p.x.Object(w).(*hca.WQ).Queue.Num)
	_, out, e := p.object(0, 0, prm(uapi.OpCreateTIR, 272, tirQueue, num+1), 16)
	p.wantStatus("a TIR of no WQ", out, e, uapi.StatusBadResource)
	_, out, e = p.object(0, 0, prm(uapi.OpCreateTIR, 272, tirQueue, num, tirDispatch, 1), 16)
	p.wantStatus("an indirect TIR", out, e, uapi.StatusBadParam)
	tir, _, e := p.object(0, 0, prm(uapi.OpCreateTIR, 272, tirQueue, num), 16)
	p.must(e)
	domain, _, e := p.object(0, 0, prm(uapi.OpAllocTransportDomain, 16), 16)
	p.must(e)
	a, e := p.ioctl(uapi.ObjMatcher, ns, at(ns, 0, 0), p.in(ns+1, make([]byte, 320)), p.in(ns+2, le(uint16(1))),
		p.in(ns+3, []byte{0}))
	p.must(e)
	m := u32(a, 8)
	flow := func(to uint32) (uint32, unix.Errno) {
		a, e := p.ioctl(uapi.ObjFlow, ns, at(ns, 0, 0), p.in(ns+1, make([]byte, 320)), at(ns+4, 0, uint64(m)),
			at(ns+3, 0, uint64(to)))
		return u32(a, 8), e
	}
	_, e = flow(domain)
	p.want("a rule to a transport domain", e, unix.EINVAL)
	f, e := flow(tir)
	p.must(e)
	if to := p.x.Object(f).(*hca.Flow).To; int(to.Num) != num {
		t.Errorf("the rule leads to queue %d, want %d", to.Num, num)
	}
	destroyTIR := func() unix.Errno {
		_, e := p.ioctl(0x1001, 0x1001, at(0x1000, 0, uint64(tir)))
		return e
	}
	p.want("destroy a TIR with a rule", destroyTIR(), unix.EBUSY)
	e = hca.Destroy[*hca.WQ](p.x, w)
	p.want("destroy a WQ with a TIR", e, unix.EBUSY)
	p.want("destroy the rule", hca.Destroy[*hca.Flow](p.x, f), 0)
	p.want("destroy the TIR", destroyTIR(), 0)
	e = hca.Destroy[*hca.WQ](p.x, w)
	p.want("destroy the WQ", e, 0)
}

// What libmlx5 does not send, and a kernel refuses.
func TestMatchers(t *testing.T) {
	const ns = uapi.DriverNS
	p := open(t)
	p.getContext()
	pd, cq := p.pd(), p.cq(10, -1)
	qp, e := p.rawQP(pd, cq, 0)
	p.want("create_qp", e, 0)
	fields := func(at int, v ...byte) []byte {
		b := make([]byte, 320)
		copy(b[at:], v)
		return b
	}
	matcher := func(mask []byte, criteria byte, more ...[]byte) (uint32, unix.Errno) {
		a, e := p.ioctl(uapi.ObjMatcher, ns, append([][]byte{at(ns, 0, 0), p.in(ns+1, mask), p.in(ns+2, le(uint16(1))),
			p.in(ns+3, []byte{criteria})}, more...)...)
		return u32(a, 8), e
	}
	flow := func(m uint32, value []byte, more ...[]byte) (uint32, unix.Errno) {
		a, e := p.ioctl(uapi.ObjFlow, ns, append([][]byte{at(ns, 0, 0), p.in(ns+1, value), at(ns+4, 0, uint64(m))},
			more...)...)
		return u32(a, 8), e
	}
	toQP := at(ns+2, 0, uint64(qp))
	flags := func(v uint32) []byte { return p.in(ns+9, le(v)) }
	header := func(table uint64, words ...uint32) (uint32, unix.Errno) {
		var b []byte
		for _, w := range words {
			b = append(b, byte(w>>24), byte(w>>16), byte(w>>8), byte(w))
		}
		a, e := p.ioctl(uapi.ObjFlowAction, ns, at(ns, 0, 0), p.in(ns+1, b), p.in(ns+2, le(table)))
		return u32(a, 8), e
	}

	_, e = matcher(fields(0), 0, p.in(ns+4, le(uint32(4))), p.in(ns+5, le(uint64(1))))
	p.want("a matcher of egress with a table", e, unix.EINVAL)
	_, e = matcher(fields(0), 0, p.in(ns+4, le(uint32(2))))
	p.want("a matcher that does not trap", e, unix.EINVAL)
	_, e = matcher(fields(0), 0, p.in(ns+5, le(uint64(5))))
	p.want("a matcher of an unknown table", e, unix.EINVAL)
	_, e = matcher(make([]byte, 641), 0)
	p.want("a mask that is too long", e, unix.EINVAL)

	m, e := matcher(fields(27, 0xf0), 1) // TTL
	p.want("create_matcher", e, 0)
	for _, c := range []struct {
		what  string
		value []byte
		more  [][]byte
		want  unix.Errno
	}{
		{"a value outside of the mask", fields(27, 1), [][]byte{toQP}, unix.EINVAL},
		{"a longer value", append(fields(0), 1), [][]byte{toQP}, unix.EINVAL},
		{"drop and miss", fields(0), [][]byte{flags(3)}, unix.EINVAL},
		{"unknown flags", fields(0), [][]byte{flags(4)}, unix.EINVAL},
		{"a QP and drop", fields(0), [][]byte{toQP, flags(2)}, unix.EINVAL},
		{"a tag of 25 bits", fields(0), [][]byte{toQP, p.in(ns+6, le(uint32(1<<24)))}, unix.EINVAL},
		{"an unknown QP", fields(0), [][]byte{at(ns+2, 0, 999)}, unix.ENOENT},
		{"an unknown action", fields(0), [][]byte{toQP, p.in(ns+5, le(uint32(999)))}, unix.ENOENT},
		{"a QP as an action", fields(0), [][]byte{toQP, p.in(ns+5, le(qp))}, unix.EINVAL},
		{"three actions", fields(0), [][]byte{toQP, p.in(ns+5, le(uint32(1), uint32(2), uint32(3)))}, unix.EINVAL},
		{"an unknown counter", fields(0), [][]byte{toQP, p.in(ns+7, le(uint32(999)))}, unix.ENOENT},
		{"a destination of DevX", fields(0), [][]byte{at(ns+3, 0, uint64(pd))}, unix.EINVAL},
	} {
		_, e := flow(m, c.value, c.more...)
		p.want("create_flow with "+c.what, e, c.want)
	}
	off, e := matcher(fields(27, 0xff), 2)
	p.want("create_matcher", e, 0)
	_, e = flow(off, fields(0), toQP)
	p.want("create_flow with a mask outside of the criteria", e, unix.EINVAL)
	high, e := matcher(fields(0), 1<<5)
	p.want("create_matcher", e, 0)
	_, e = flow(high, fields(0), toQP)
	p.want("create_flow with unknown criteria", e, unix.EINVAL)

	_, e = header(0, 0x100a0008, 1, 2)
	p.want("a change of 12 bytes", e, unix.EINVAL)
	_, e = header(0, 0x400a0008, 1)
	p.want("a change of an unknown kind", e, unix.EINVAL)
	_, e = header(0, 0x10510000, 1)
	p.want("a change of a register", e, unix.EINVAL)
	_, e = header(0, 0x100a0109, 1)
	p.want("a change of more bits than the field has", e, unix.EINVAL)
	_, e = header(0, make([]uint32, 66)...)
	p.want("33 changes", e, unix.EOPNOTSUPP)
	_, e = header(9, 0x100a0008, 1)
	p.want("a change in an unknown table", e, unix.EINVAL)
	one, e := header(0, 0x100a0008, 1)
	p.want("create_modify_header", e, 0)
	two, e := header(0, 0x100a0008, 2)
	p.want("create_modify_header", e, 0)
	_, e = flow(m, fields(0), toQP, p.in(ns+5, le(one, two)))
	p.want("create_flow with two changes of headers", e, unix.EINVAL)

	f, e := flow(m, fields(27, 0x40), toQP, p.in(ns+5, le(one)))
	p.want("create_flow", e, 0)
	_, e = flow(m, fields(27, 0x40), toQP)
	p.want("create_flow with the same value and another action", e, unix.EEXIST)
	_, e = p.ioctl(uapi.ObjMatcher, ns+1, at(ns, 0, uint64(m)))
	p.want("destroy_matcher with a rule", e, unix.EBUSY)
	_, e = p.ioctl(uapi.ObjFlowAction, 1, at(0, 0, uint64(one)))
	p.want("destroy_flow_action of a rule", e, unix.EBUSY)
	_, _, e = p.cmd(27, le(uint64(0), qp, 0), 4, nil, 0)
	p.want("destroy_qp with a rule", e, unix.EBUSY)
	_, e = p.ioctl(uapi.ObjFlow, 0, at(0, 0, uint64(f)))
	p.want("destroy_flow", e, 0)
	for _, h := range []uint32{one, two} {
		_, e = p.ioctl(uapi.ObjFlowAction, 1, at(0, 0, uint64(h)))
		p.want("destroy_flow_action", e, 0)
	}
	for _, h := range []uint32{m, off, high} {
		_, e = p.ioctl(uapi.ObjMatcher, ns+1, at(ns, 0, uint64(h)))
		p.want("destroy_matcher", e, 0)
	}
}
