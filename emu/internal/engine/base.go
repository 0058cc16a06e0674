//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// base is what all parts of the engine have: what none of them writes but by its methods, and what belongs to nobody
// for longer than a step.
type base struct {
	f      *hca.Fabric
	c      *Config
	hooks  *Hooks
	strict *checks
	tr     *tracer
	turns  *turns
	ready  *readyList
	timers *timers
	routes *routes
	win    *window
	b      *batch   // the batch at hand
	io     *scratch // for one call
}

// states follows the states of QPs, and breaks QPs.
type states struct{ base }

// lists are the pieces of memory of the message at hand.
type lists struct {
	base
	src, dst []piece
	paged    bool // a region on demand was used in the batch
}

// completions writes completions and announces them.
type completions struct {
	base
	states *states

	held     []pending // delayed
	later    []pending // of several requesters, which are written together
	toNotify []*hca.CQ // events to send when the batch is in memory
	broken   []*hca.CQ // CQ errors to report then
}

// receives reads receive queues.
type receives struct {
	base
	states *states
	limits []*hca.SRQ // whose limit is to be checked when the batch is through
}

// sendQueues reads send queues.
type sendQueues struct {
	base
	states *states

	ahead wqesAhead
	w     wqe // the WQE at hand
}

// batcher begins batches, moves what they plan, and undoes them.
type batcher struct {
	base
	lists *lists
	comps *completions
	recvs *receives

	merging bool      // a batch may be left open
	sigErrs []*hca.QP // to stop because of a wrong signature, when the batch is through
}

// messages is what those have that carry messages of any transport.
type messages struct {
	base
	states  *states
	lists   *lists
	comps   *completions
	recvs   *receives
	batches *batcher
}

// requester sends what WQEs say, and ends them.
type requester struct {
	messages
	sends *sendQueues

	restarts int // of a large message, because others changed something
}

// responder answers requests of connected QPs.
type responder struct {
	messages
	req *requester
}

// datagrams sends those of UD QPs, and receives them.
type datagrams struct {
	messages
	req *requester

	groups []*hca.QP // scratch: members of a multicast group
}

// switcher sends the frames of raw packet QPs, and receives them.
type switcher struct {
	messages
	sends *sendQueues
	req   *requester

	frames frames
}
