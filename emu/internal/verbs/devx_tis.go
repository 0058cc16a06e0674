//go:build linux

package verbs

import (
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Fields of a transport interface send, which a raw packet QP has, and which a command makes for send queues to come.
// C: struct mlx5_ifc_tisc_bits.
var (
	tisLAGPort    = uapi.Bits{At: 0x80 + 0x04, Len: 4}
	tisDomain     = uapi.Bits{At: 0x80 + 0x128, Len: 24}
	tisNewTLS     = uapi.Bits{At: 0x100 + 0x01, Len: 1}
	tisNewLAGPort = uapi.Bits{At: 0x100 + 0x04, Len: 4}
	tisNewDomain  = uapi.Bits{At: 0x100 + 0x128, Len: 24}
	tisMask       = uapi.Bits{At: 0x80, Len: 64}
)

const tisMaskLAGPort = 1 << 2

func createTIS(d *command) (*hca.DevxObject, uapi.Status) {
	port := uint8(tisNewLAGPort.Get(d.in))
	domain := hca.Lookup(d.ctx, func(o *hca.DevxObject) bool {
		return o.Made == uapi.OpAllocTransportDomain && uint64(o.Num) == tisNewDomain.Get(d.in)
	})
	switch {
	case tisNewTLS.Get(d.in) != 0, int(port) > d.ctx.Device.Config.LAGPorts:
		return nil, uapi.StatusBadParam
	case domain == nil:
		return nil, uapi.StatusBadResource
	}
	o := &hca.DevxObject{Name: "DevX TIS", Num: d.ctx.Device.NextNumber(), Domain: domain.Num, LAGPort: port}
	o.Use(domain)
	return o, uapi.StatusOK
}

// Fields of a transport interface receive. C: struct mlx5_ifc_tirc_bits.
var (
	tirDispatch = uapi.Bits{At: 0x100 + 0x20, Len: 4}
	tirQueue    = uapi.Bits{At: 0x100 + 0xe8, Len: 24}
)

// createTIR makes a TIR that leads to one receive queue, a WQ of verbs. One that spreads frames is a QP of verbs here.
func createTIR(d *command) (*hca.DevxObject, uapi.Status) {
	if tirDispatch.Get(d.in) != 0 {
		return nil, uapi.StatusBadParam
	}
	o, e := hca.CreateTIR(d.ctx, uint32(tirQueue.Get(d.in)))
	return o, statusOf(e)
}

// allocTransportDomain gives a number. What a transport domain is for, to keep frames of a context from others, is
// what this adapter does for each context anyway.
func allocTransportDomain(d *command) (*hca.DevxObject, uapi.Status) {
	return &hca.DevxObject{Name: "DevX transport domain", Num: d.ctx.Device.NextNumber()}, uapi.StatusOK
}

// tisPort returns where an object's TIS keeps the port of a bond that it sends from, or nil.
func (d *command) tisPort(o any) *uint8 {
	if x, ok := o.(*hca.DevxObject); ok && x.Made == uapi.OpCreateTIS {
		return &x.LAGPort
	}
	if qp := within[hca.QP](d, o); qp != nil && qp.Type == hca.RawPacket {
		return &qp.Extra.LAGPort
	}
	return nil
}

func queryTIS(d *command, o any) uapi.Status {
	port := d.tisPort(o)
	if port == nil {
		return uapi.StatusBadResource
	}
	tisLAGPort.Put(d.out, uint64(*port))
	if x, ok := o.(*hca.DevxObject); ok {
		tisDomain.Put(d.out, uint64(x.Domain))
	}
	return uapi.StatusOK
}

func modifyTIS(d *command, o any) uapi.Status {
	at, port := d.tisPort(o), uint8(tisNewLAGPort.Get(d.in))
	switch v := d.ctx.Device; {
	case at == nil:
		return uapi.StatusBadResource
	case tisMask.Get(d.in)&^tisMaskLAGPort != 0, !bonded(v), int(port) > v.Config.LAGPorts:
		return uapi.StatusBadParam
	}
	*at = port
	return uapi.StatusOK
}
