//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// transport is how the QPs of a type differ where the way of a WQE is common to all.
type transport struct {
	carries   traits     // the opcodes that have this trait
	segment   int        // bytes of its own segment, behind the control segment
	reliable  bool       // a request is answered, or tried again; a failed one moves the QP to ERR, not to SQE
	responder hca.QPType // what it is connected to
	addressed bool       // each request names its responder
}

var (
	rc        = transport{carries: onRC, reliable: true, responder: hca.RC}
	uc        = transport{carries: onUC, responder: hca.UC}
	ud        = transport{carries: onUD, segment: avSize, responder: hca.UD}
	xrc       = transport{carries: onRC, segment: xrcSize, reliable: true, responder: hca.XRCRecv}
	raw       = transport{carries: onRaw}
	dci       = transport{carries: onRC, segment: avSize, reliable: true, responder: hca.DCT, addressed: true}
	sendsNone = transport{reliable: true}
)

func transportOf(t hca.QPType) *transport {
	switch t {
	case hca.RC:
		return &rc
	case hca.UC:
		return &uc
	case hca.UD:
		return &ud
	case hca.XRCSend:
		return &xrc
	case hca.RawPacket:
		return &raw
	case hca.DCI:
		return &dci
	}
	return &sendsNone
}
