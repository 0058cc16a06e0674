package ops

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/work"
)

// FillBind is Fill for the bind of a memory window of type 2. The caller has checked b and keeps its objects open until
// the slot is posted.
func (c *SendChain) FillBind(i int, wr *work.SendWR, b *work.Bind) {
	w := c.Slot(i, wr.ID, wr.Opcode, wr.Flags)
	w.ImmData = 0 // of an earlier request: librxe refuses it here
	w.Bind = abi.BindMW{MW: b.MW, RKey: b.NewKey, BindInfo: *BindInfo(b)}
}

// BindInfo returns what a window is bound to, and gives the struct ibv_mw its present key: providers name the window by
// that, and nothing else updates it for type 2.
func BindInfo(b *work.Bind) *abi.MWBindInfo {
	cmem.At[abi.MW](b.MW).RKey = b.Key
	return &abi.MWBindInfo{MR: b.MR, Addr: b.Addr, Length: b.Length, MWAccessFlags: b.Access}
}
