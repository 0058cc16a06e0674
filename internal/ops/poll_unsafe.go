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
	poll   uintptr
	notify uintptr
	cq     uintptr
	wcs    []abi.WC
	first  uintptr
	mem    *dma.Mem
}

// NewPoller returns a poller for the ibv_cq at cq.
func NewPoller(t Table, cq uintptr) (*Poller, error) {
	mem, err := dma.Alloc(PollBatch*int(unsafe.Sizeof(abi.WC{})), nil)
	if err != nil {
		return nil, err
	}
	return &Poller{
		poll:   t.PollCQ,
		notify: t.ReqNotifyCQ,
		cq:     cq,
		wcs:    cmem.Slice[abi.WC](mem.Addr(), PollBatch),
		first:  mem.Addr(),
		mem:    mem,
	}, nil
}

// Poll fetches up to n completions, at most PollBatch. They are valid until the next call. The second result is 0, or
// the negative result of the provider.
func (p *Poller) Poll(n int) ([]abi.WC, int) {
	n = min(n, PollBatch)
	got := int(int32(ccall.Hot(p.poll, p.cq, uintptr(n), p.first)))
	if got < 0 {
		return nil, got
	}
	return p.wcs[:min(got, n)], 0
}

// Arm requests one event on the CQ's channel, for the next completion or the next solicited one. It returns an errno.
func (p *Poller) Arm(solicitedOnly bool) int { return arm(p.notify, p.cq, solicitedOnly) }

func arm(notify, cq uintptr, solicitedOnly bool) int {
	var s uintptr
	if solicitedOnly {
		s = 1
	}
	return errno(int32(ccall.Hot(notify, cq, s, 0)))
}

// Free frees the memory. The poller must not be used afterwards.
func (p *Poller) Free() error { return p.mem.Free() }
