package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// ExpPoller fetches completions by ibv_exp_poll_cq of MLNX_OFED 4.x into its own array of struct ibv_exp_wc.
type ExpPoller struct {
	poll   uintptr
	notify uintptr
	cq     uintptr
	wcs    []abi.ExpWC
	first  uintptr
	mem    *dma.Mem
}

// NewExpPoller returns a poller for the ibv_cq at cq; poll is the experimental verb.
func NewExpPoller(t Table, poll, cq uintptr) (*ExpPoller, error) {
	mem, err := dma.Alloc(PollBatch*int(unsafe.Sizeof(abi.ExpWC{})), nil)
	if err != nil {
		return nil, err
	}
	return &ExpPoller{
		poll:   poll,
		notify: t.ReqNotifyCQ,
		cq:     cq,
		wcs:    cmem.Slice[abi.ExpWC](mem.Addr(), PollBatch),
		first:  mem.Addr(),
		mem:    mem,
	}, nil
}

// Poll fetches up to n completions, at most PollBatch. They are valid until the next call. The second result is 0, or
// the negative result of the provider.
func (p *ExpPoller) Poll(n int) ([]abi.ExpWC, int) {
	n = min(n, PollBatch)
	got := int(int32(ccall.Hot6(p.poll, p.cq, uintptr(n), p.first, unsafe.Sizeof(abi.ExpWC{}), 0, 0)))
	if got < 0 {
		return nil, got
	}
	return p.wcs[:min(got, n)], 0
}

// Arm requests one event on the CQ's channel, as Poller.Arm does.
func (p *ExpPoller) Arm(solicitedOnly bool) int { return arm(p.notify, p.cq, solicitedOnly) }

// Free frees the memory. The poller must not be used afterwards.
func (p *ExpPoller) Free() error { return p.mem.Free() }
