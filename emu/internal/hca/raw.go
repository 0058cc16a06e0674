//go:build linux

package hca

import (
	"encoding/binary"
)

// What a raw packet QP does with the frames that it receives: the kernel's creation flags.
const (
	ScatterFCS = 1 << 8 // the frame check sequence is put behind the frame
	StripVLAN  = 1 << 9 // the VLAN tag goes to the completion
)

// Flags of the driver's that let a QP have frames that its own device sends. C: MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_*.
const (
	SelfUnicast   = 1 << 6
	SelfMulticast = 1 << 7
)

// MaxFrame returns the size of the longest frame that a port sends and receives, without its check sequence: what its
// netdev's MTU says, an Ethernet header and a VLAN tag.
func (p *Port) MaxFrame() int { return p.MTU + 14 + 4 }

// MaxTSO is the most bytes that a work request has the device cut into frames.
const MaxTSO = 256 << 10

// Receivers counts the raw packet QPs that a rule leads to and whose program has posted a receive.
func (d *Device) Receivers() (n int) {
	d.EachQP(func(qp *QP) {
		var posted [4]byte
		if qp.Type != UD && qp.Uses() > 0 && qp.State >= RTR && qp.Mem.Read(qp.DB, posted[:]) == nil &&
			binary.BigEndian.Uint32(posted[:]) > 0 {
			n++
		}
	})
	return n
}
