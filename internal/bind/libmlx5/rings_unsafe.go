package libmlx5

import (
	"runtime"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/uverbs"
)

// libmlx5 has no functions for what is in this file. The kernel's commands are sent to its context.

// SwapCQ makes the device use another ring for a struct ibv_cq.
func (l Lib) SwapCQ(cq, buf uintptr, entries, size uint32) error {
	c := cmem.At[abi.CQ](cq)
	runtime.LockOSThread() // for bind.Explain
	defer runtime.UnlockOSThread()
	err := uverbs.ResizeCQ(int(cmem.At[abi.Context](c.Context).CmdFD), c.Handle, buf, entries, size)
	return bind.Explain(c.Context, err)
}

// NoInlineHeaders asks the kernel whether the device wants no header of a frame in the work request.
func (l Lib) NoInlineHeaders(ctx uintptr) (bool, error) {
	return uverbs.NoInlineHeaders(int(cmem.At[abi.Context](ctx).CmdFD))
}
