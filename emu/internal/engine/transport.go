//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// transport is how the QPs of a type differ where the way of a WQE is common to all.
type transport struct {
	carries    traits     // the opcodes that have this trait
	segment    int        // bytes of its own segment, behind the control segment
	unreliable bool       // a request is not answered, or tried again; a failed one moves the QP to SQE, not to ERR
	responder  hca.QPType // what it is connected to
	addressed  bool       // each request names its responder
}

// transports has a row for each type whose QPs send.
var transports = [256]transport{
	hca.RC:        {carries: onRC, responder: hca.RC},
	hca.UC:        {carries: onUC, unreliable: true, responder: hca.UC},
	hca.UD:        {carries: onUD, unreliable: true, segment: avSize, responder: hca.UD},
	hca.XRCSend:   {carries: onRC, segment: xrcSize, responder: hca.XRCRecv},
	hca.RawPacket: {carries: onRaw, unreliable: true},
	hca.DCI:       {carries: onRC, segment: avSize, responder: hca.DCT, addressed: true},
}

func transportOf(t hca.QPType) *transport { return &transports[t] }
