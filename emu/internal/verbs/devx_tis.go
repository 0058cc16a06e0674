//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

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
	domain, port := uint32(tisNewDomain.Get(d.in)), uint8(tisNewLAGPort.Get(d.in))
	switch {
	case tisNewTLS.Get(d.in) != 0, int(port) > d.ctx.Device.Config.LAGPorts:
		return nil, uapi.StatusBadParam
	case d.find(uapi.OpAllocTransportDomain, func(o *hca.DevxObject) bool { return o.Num == domain }) == nil:
		return nil, uapi.StatusBadResource
	}
	num := d.ctx.Device.NextNumber()
	uapi.CmdNum.Put(d.out, uint64(num))
	return &hca.DevxObject{Name: "DevX TIS", Num: num, Domain: domain, LAGPort: port}, uapi.StatusOK
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
	if e != 0 {
		return nil, statusOf(e)
	}
	uapi.CmdNum.Put(d.out, uint64(o.Num))
	return o, uapi.StatusOK
}

// find returns an object of the context that a command made, or nil.
func (d *command) find(made uint16, is func(*hca.DevxObject) bool) *hca.DevxObject {
	for _, h := range d.ctx.Handles() {
		if o, ok := d.ctx.Object(h).(*hca.DevxObject); ok && o.Made == made && is(o) {
			return o
		}
	}
	return nil
}

// allocTransportDomain gives a number. What a transport domain is for, to keep frames of a context from others, is
// what this adapter does for each context anyway.
func allocTransportDomain(d *command) (*hca.DevxObject, uapi.Status) {
	num := d.ctx.Device.NextNumber()
	uapi.CmdNum.Put(d.out, uint64(num))
	return &hca.DevxObject{Name: "DevX transport domain", Num: num, Free: func() unix.Errno {
		if d.find(uapi.OpCreateTIS, func(o *hca.DevxObject) bool { return o.Domain == num }) != nil {
			return unix.EBUSY
		}
		return 0
	}}, uapi.StatusOK
}

// tisPort returns where an object's TIS keeps the port of a bond that it sends from, or nil.
func (d *command) tisPort(o any) *uint8 {
	if x, ok := o.(*hca.DevxObject); ok && x.Made == uapi.OpCreateTIS {
		return &x.LAGPort
	}
	if qp := d.devxQP(o); qp != nil && qp.Type == hca.RawPacket {
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
