//go:build linux

package verbs

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Flow counters: C: struct mlx5_ifc_alloc_flow_counter_in_bits, mlx5_ifc_query_flow_counter_in_bits.
var (
	counterBulk  = uapi.Bits{At: 0x78, Len: 8}
	counterID    = uapi.Bits{At: 0xe0, Len: 32} // of a query
	counterCount = uapi.Bits{At: 0xd0, Len: 16}
	counterClear = uapi.Bits{At: 0xc0, Len: 1}
)

// allocFlowCounter makes one counter, or 128 for bit 0 of the bulk, 256 for bit 1, and so on.
func allocFlowCounter(d *command) (*hca.DevxObject, uapi.Status) {
	n := 1
	if bulk := counterBulk.Get(d.in); bulk != 0 {
		if bulk&(bulk-1) != 0 {
			return nil, uapi.StatusBadParam
		}
		n = 128 * int(bulk)
	}
	return &hca.DevxObject{Name: "DevX flow counter", Num: d.ctx.Device.NextNumber(),
		Counters: make([]hca.FrameCounter, n)}, uapi.StatusOK
}

// queryFlowCounter tells packets and bytes of one counter, or of several that follow it.
func queryFlowCounter(d *command, o any) uapi.Status {
	x, ok := o.(*hca.DevxObject)
	if !ok || x.Counters == nil {
		return uapi.StatusBadResource
	}
	const head, size = 16, 16
	n := max(1, int(counterCount.Get(d.in)))
	if n > len(x.Counters) {
		return uapi.StatusBadParam
	}
	for i := range n {
		at, f := head+i*size, &x.Counters[i]
		if len(d.out) < at+size {
			break
		}
		binary.BigEndian.PutUint64(d.out[at:], f.Packets)
		binary.BigEndian.PutUint64(d.out[at+8:], f.Bytes)
		if counterClear.Get(d.in) != 0 {
			f.Packets, f.Bytes = 0, 0
		}
	}
	return uapi.StatusOK
}
