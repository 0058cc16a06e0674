//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// devxCreates has the commands that make an object. They fill in all but Handle and Made; to have a further kind of
// object, add it here, and to devxQueries, devxModifies and the capabilities.
var devxCreates map[uint16]func(*command) (*hca.DevxObject, uapi.Status)

// devxQueries and devxModifies have the commands about an object, which is one of DevX or of a verb.
var devxQueries, devxModifies map[uint16]func(*command, any) uapi.Status

func init() {
	devxCreates = map[uint16]func(*command) (*hca.DevxObject, uapi.Status){
		uapi.OpAllocPD:              devxAllocPD,
		uapi.OpAllocTransportDomain: allocTransportDomain,
		uapi.OpCreateTIS:            createTIS,
		uapi.OpCreateTIR:            createTIR,
		uapi.OpCreateCQ:             devxCreateCQ,
		uapi.OpCreateQP:             devxCreateQP,
		uapi.OpCreateGeneralObject:  createGeneral,
		uapi.OpAllocFlowCounter:     allocFlowCounter,
		uapi.OpCreateMKey:           createMkey,
		uapi.OpCreatePSV:            createPSV,
	}
	devxQueries = map[uint16]func(*command, any) uapi.Status{
		uapi.OpQueryCQ:            devxQueryCQ,
		uapi.OpQueryQP:            devxQueryQP,
		uapi.OpQueryDCT:           devxQueryDCT,
		uapi.OpQueryTIS:           queryTIS,
		uapi.OpQueryGeneralObject: queryGeneral,
		uapi.OpQueryFlowCounter:   queryFlowCounter,
	}
	devxModifies = map[uint16]func(*command, any) uapi.Status{
		uapi.OpRst2InitQP:          moveQP,
		uapi.OpInit2RtrQP:          moveQP,
		uapi.OpRtr2RtsQP:           moveQP,
		uapi.Op2ErrQP:              moveQP,
		uapi.Op2RstQP:              moveQP,
		uapi.OpInit2InitQP:         init2init,
		uapi.OpRts2RtsQP:           rts2rts,
		uapi.OpModifySQ:            modifySQ,
		uapi.OpModifyTIS:           modifyTIS,
		uapi.OpModifyGeneralObject: modifyGeneral,
	}
}

// devxCreatable reports whether the kernel passes a command on as one that makes an object. C: devx_is_obj_create_cmd.
func devxCreatable(in []byte) bool {
	const (
		createRMP, createSQ, createRQ, createRQT               = 0x90c, 0x904, 0x908, 0x916
		allocQCounter, createFlowTable, createFlowGroup        = 0x771, 0x930, 0x933
		setFlowTableEntry, allocReformat                       = 0x936, 0x93d
		allocModifyHeader, createSched, addVXLAN, setL2        = 0x940, 0x782, 0x827, 0x829
		createSRQ, createXSRQ, createDCT, createXRQ, attachMCG = 0x700, 0x705, 0x710, 0x717, 0x806
		allocXRCD                                              = 0x80e
	)
	numPSV := uapi.Bits{At: 0x40, Len: 4}
	switch uapi.CmdOpcode.Get(in) {
	case uapi.OpCreateGeneralObject, uapi.OpCreateMKey, uapi.OpCreateCQ, uapi.OpAllocPD, uapi.OpAllocTransportDomain,
		uapi.OpCreateQP, createRMP, createSQ, createRQ, createRQT, uapi.OpCreateTIR, uapi.OpCreateTIS, allocQCounter,
		createFlowTable, createFlowGroup, uapi.OpAllocFlowCounter, allocReformat, allocModifyHeader, createSched,
		addVXLAN, setL2, createSRQ, createXSRQ, createDCT, createXRQ, attachMCG, allocXRCD:
		return true
	case setFlowTableEntry:
		return uapi.CmdOpMod.Get(in) == 0
	case uapi.OpCreatePSV:
		return numPSV.Get(in) == 1
	}
	return false
}

// devxNames reports whether a command about an object names it by its number. C: devx_is_valid_obj_id.
func devxNames(o any, in []byte) bool {
	num := uint32(uapi.CmdNum.Get(in))
	switch o := o.(type) {
	case *hca.DevxObject:
		if o.Made == uapi.OpCreateGeneralObject {
			return uint32(uapi.CmdObjID.Get(in)) == o.Num && uint16(uapi.CmdObjType.Get(in)) == o.Type
		}
		if o.Made == uapi.OpAllocFlowCounter {
			return uint32(counterID.Get(in)) == o.Num
		}
		return num == o.Num
	case *hca.QP: // TIR, TIS, RQ and SQ of a raw packet QP have its number
		return num == o.Num
	case *hca.CQ:
		return num == o.Num
	case *hca.SRQ:
		return num == o.Num
	}
	return false
}

func devxAllocPD(d *command) (*hca.DevxObject, uapi.Status) {
	pd, e := hca.AllocPD(d.ctx)
	if e != 0 {
		return nil, statusOf(e)
	}
	return &hca.DevxObject{Name: "DevX PD", Num: pd.Num, Inner: pd.Handle}, uapi.StatusOK
}

// statusOf is the adapter's word for what a verb refuses.
func statusOf(e unix.Errno) uapi.Status {
	switch e {
	case 0:
		return uapi.StatusOK
	case unix.ENOMEM, unix.ENOSPC:
		return uapi.StatusLimit
	case unix.EBUSY:
		return uapi.StatusBusy
	case unix.ENOENT:
		return uapi.StatusBadResource
	}
	return uapi.StatusBadParam
}
