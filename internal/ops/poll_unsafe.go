package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// PollBatch is the maximum number of completions that one call fetches.
const PollBatch = 64

// Poller fetches completions of one CQ into its own array of struct ibv_wc.
type Poller struct {
	call   ccall.Call // poll_cq
	notify uintptr
	first  *abi.WC // of PollBatch
	mem    *dma.Mem
}

// NewPoller returns a poller for the ibv_cq at cq.
func NewPoller(t Table, cq uintptr) (*Poller, error) {
	mem, err := dma.Alloc(PollBatch*int(unsafe.Sizeof(abi.WC{})), nil)
	if err != nil {
		return nil, err
	}
	return &Poller{
		call:   ccall.Call{Fn: t.PollCQ, A1: cq, A3: mem.Addr()},
		notify: t.ReqNotifyCQ,
		first:  cmem.At[abi.WC](mem.Addr()),
		mem:    mem,
	}, nil
}

// Poll fetches up to n completions, at most PollBatch. It returns how many, or the negative result of the provider.
func (p *Poller) Poll(n int) int {
	p.call.A2 = uintptr(min(n, PollBatch))
	return min(int(int32(ccall.Do(&p.call))), int(p.call.A2))
}

// First returns the first completion of the last Poll. The others follow it; they are valid until the next Poll.
func (p *Poller) First() *abi.WC { return p.first }

// Arm requests one event on the CQ's channel, for the next completion or the next solicited one. It returns an errno.
func (p *Poller) Arm(solicitedOnly bool) int { return Arm(p.notify, p.call.A1, solicitedOnly) }

// Arm requests one event by the req_notify_cq of a provider.
func Arm(notify, cq uintptr, solicitedOnly bool) int {
	var s uintptr
	if solicitedOnly {
		s = 1
	}
	return errno(int32(ccall.Hot(notify, cq, s, 0)))
}

// Free frees the memory, if there is a poller. It must not be used afterwards.
func (p *Poller) Free() error {
	if p == nil {
		return nil
	}
	return p.mem.Free()
}
