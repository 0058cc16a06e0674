//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// verdict is what became of a WQE, or of one step on its way.
type verdict uint8

const (
	proceed  verdict = iota // the next step follows
	executed                // part of the batch, or done
	alone                   // needs an empty batch
	halt                    // the queue cannot go on now
	broken                  // memory of the batch is bad: undo it
)

// exchange is a WQE of a connected QP on its way: the requester checks it and finds the responder, the responder
// checks what is asked of it, the opcode moves the data, and both complete it.
type exchange struct {
	// The requester.
	qp        *hca.QP
	w         *wqe
	transport *transport

	// The responder.
	peer    *hca.QP
	srq     *hca.SRQ // where its receives come from, if not from its own queue
	pd      *hca.PD
	mem     guest.Mem // of its process: with XRC the SRQ's
	cq      *hca.CQ   // where its receives complete; nil: nowhere
	uidx    uint32    // what they carry there
	packets uint32
	target  []piece   // of READ, WRITE and atomics: the remote memory
	recv    recvEntry // of SEND and immediates
}

// recvEntry is a receive at the head of its queue.
type recvEntry struct {
	segs    []byte // data segments
	counter uint16 // wqe_counter of its completion
}
