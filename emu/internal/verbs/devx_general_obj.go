//go:build linux

package verbs

import (
	"bytes"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// generalObject is a kind of object that create_general_object makes, by its type.
type generalObject struct {
	name string // for the report of leaks
	on   func(*hca.Device) bool
	// create fills in Num, and what else the object has; the rest is done. modify may be nil: nothing can be changed.
	create func(*command, *hca.DevxObject) uapi.Status
	modify func(*command, *hca.DevxObject) uapi.Status
}

// generalObjects is all types that there are. The capability general_obj_types follows it. C: MLX5_OBJ_TYPE_*.
var generalObjects = map[uint16]generalObject{
	objReservedQPN: {"reserved range of QPNs", all, reserveQPNs, nil},
	objAVQPMapping: {"mapping of an address to a QP", all, mapAddress, nil},
	objScheduler:   {"element of the scheduler", (*hca.Device).Recent, createScheduler, modifyScheduler},
}

const (
	objReservedQPN = 0x2c
	objAVQPMapping = 0x3a

	// logReservedQPNs is how many QPNs are reserved at once.
	logReservedQPNs = 5
)

func all(*hca.Device) bool { return true }

func generalObjectTypes(d *hca.Device) (v uint64) {
	for t, kind := range generalObjects {
		v |= uint64(bit(kind.on(d))) << t
	}
	return v
}

func createGeneral(d *command) (*hca.DevxObject, uapi.Status) {
	typ := uint16(uapi.CmdObjType.Get(d.in))
	kind, ok := generalObjects[typ]
	if !ok || !kind.on(d.ctx.Device) {
		return nil, uapi.StatusBadParam
	}
	o := &hca.DevxObject{Name: kind.name, Type: typ, Body: bytes.Clone(d.in[uapi.CmdHeader:])}
	return o, kind.create(d, o)
}

func queryGeneral(d *command, o any) uapi.Status {
	g, ok := o.(*hca.DevxObject)
	if !ok || g.Made != uapi.OpCreateGeneralObject {
		return uapi.StatusBadResource
	}
	uapi.OutObjID.Put(d.out, uint64(g.Num))
	copy(d.out[uapi.OutHeader:], g.Body)
	return uapi.StatusOK
}

func modifyGeneral(d *command, o any) uapi.Status {
	g, ok := o.(*hca.DevxObject)
	if !ok || g.Made != uapi.OpCreateGeneralObject {
		return uapi.StatusBadResource
	}
	if f := generalObjects[g.Type].modify; f != nil {
		return f(d, g)
	}
	return uapi.StatusBadOp
}

// reserveQPNs keeps QPNs that no QP will have, for a program that connects without a QP of its own.
func reserveQPNs(d *command, o *hca.DevxObject) uapi.Status {
	if uapi.CmdObjRange.Get(d.in) > logReservedQPNs {
		return uapi.StatusBadParam
	}
	first, release, ok := d.ctx.Device.ReserveQPNs(1 << logReservedQPNs)
	if !ok {
		return uapi.StatusNoResources
	}
	o.Num, o.Free = first, release
	return uapi.StatusOK
}

var mappedQPN = uapi.Bits{At: 0x80 + 0x60, Len: 32} // C: struct mlx5_ifc_av_qp_mapping_bits, behind the header

// mapAddress has an address take part in a QP's congestion control, of which there is none here.
func mapAddress(d *command, o *hca.DevxObject) uapi.Status {
	v := d.ctx.Device
	if v.QP(uint32(mappedQPN.Get(d.in))) == nil {
		return uapi.StatusBadResource
	}
	o.Num = v.NextNumber()
	return uapi.StatusOK
}
