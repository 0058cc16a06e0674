package mlx5dv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// HeaderField is a field of a frame's headers, or a register, that a HeaderAction changes.
//
// C: the field of set_action_in in the device's programming manual.
type HeaderField uint16

// The fields. Those of more than 32 bits have several numbers.
const (
	FieldSrcMACHigh  HeaderField = 0x01 // 32 bits
	FieldSrcMACLow   HeaderField = 0x02 // 16 bits
	FieldEtherType   HeaderField = 0x03
	FieldDstMACHigh  HeaderField = 0x04
	FieldDstMACLow   HeaderField = 0x05
	FieldDSCP        HeaderField = 0x06
	FieldTCPFlags    HeaderField = 0x07
	FieldTCPSrcPort  HeaderField = 0x08
	FieldTCPDstPort  HeaderField = 0x09
	FieldTTL         HeaderField = 0x0a // of IPv4
	FieldUDPSrcPort  HeaderField = 0x0b
	FieldUDPDstPort  HeaderField = 0x0c
	FieldSrcIPv6Word HeaderField = 0x0d // the first of four; + 3 is the last
	FieldDstIPv6Word HeaderField = 0x11
	FieldSrcIPv4     HeaderField = 0x15
	FieldDstIPv4     HeaderField = 0x16
	FieldVLANID      HeaderField = 0x17
	FieldHopLimit    HeaderField = 0x47 // of IPv6
	FieldRegA        HeaderField = 0x49
	FieldRegB        HeaderField = 0x50
	FieldRegC        HeaderField = 0x51 // the first of six
	FieldTCPSeq      HeaderField = 0x59
	FieldTCPAck      HeaderField = 0x5b
	FieldGTPUTEID    HeaderField = 0x6e
	FieldECN         HeaderField = 0x73
)

// fieldWidths has the fields with fewer than 32 bits.
var fieldWidths = map[HeaderField]int{
	FieldSrcMACLow: 16, FieldEtherType: 16, FieldDstMACLow: 16, FieldDSCP: 6, FieldTCPFlags: 9,
	FieldTCPSrcPort: 16, FieldTCPDstPort: 16, FieldTTL: 8, FieldUDPSrcPort: 16, FieldUDPDstPort: 16, FieldVLANID: 12,
	FieldHopLimit: 8, FieldECN: 2,
}

// Bits returns the width of a field.
func (f HeaderField) Bits() int {
	if w := fieldWidths[f]; w != 0 {
		return w
	}
	return 32
}

// HeaderAction is one change of a frame's headers. The device corrects checksums.
//
// C: union set_action_in, add_action_in, copy_action_in of the device's programming manual.
type HeaderAction struct {
	kind   int
	field  HeaderField // that is written
	value  uint32
	from   HeaderField // of a copy
	offset int
	length int // bits; 0 means all
}

// Kinds of changes.
const (
	headerSet  = 1
	headerAdd  = 2
	headerCopy = 3
)

// SetHeader stores a value in a field.
func SetHeader(f HeaderField, v uint32) HeaderAction {
	return HeaderAction{kind: headerSet, field: f, value: v}
}

// SetHeaderBits stores a value in some bits of a field: length of them, the lowest being number offset.
func SetHeaderBits(f HeaderField, v uint32, offset, length int) HeaderAction {
	return HeaderAction{kind: headerSet, field: f, value: v, offset: offset, length: length}
}

// AddHeader adds a value to a field, modulo its width: 0xffffffff takes 1 away.
func AddHeader(f HeaderField, v uint32) HeaderAction {
	return HeaderAction{kind: headerAdd, field: f, value: v}
}

// CopyHeader copies the lowest bits of a field to another: as many as the shorter has.
func CopyHeader(to, from HeaderField) HeaderAction {
	return HeaderAction{kind: headerCopy, field: to, from: from, length: min(to.Bits(), from.Bits())}
}

// prm returns the eight bytes in the order of memory.
func (a HeaderAction) prm(arg string) (uint64, error) {
	width := a.field.Bits()
	length := a.length
	if length == 0 {
		length = width
	}
	switch {
	case a.kind == 0:
		return 0, &ibv.ArgError{Arg: arg, Got: "empty", Want: "SetHeader, SetHeaderBits, AddHeader or CopyHeader"}
	case a.field == 0, a.field >= 1<<12, a.from >= 1<<12, a.kind == headerCopy && a.from == 0:
		return 0, &ibv.ArgError{Arg: arg, Got: fmt.Sprintf("fields %d and %d", a.field, a.from), Want: "a HeaderField"}
	case a.offset < 0, length < 1, a.offset+length > width:
		return 0, &ibv.ArgError{Arg: arg, Got: fmt.Sprintf("%d bits from bit %d", length, a.offset),
			Want: fmt.Sprintf("bits of a field of %d", width)}
	case a.kind == headerSet && uint64(a.value) >= 1<<length:
		return 0, &ibv.LimitError{What: arg, Asked: uint64(a.value), Limit: 1<<length - 1,
			Where: fmt.Sprintf("a field of %d bits", length)}
	}
	var b [8]byte
	head := uint32(a.kind)<<28 | uint32(a.field)<<16
	second := a.value
	switch a.kind {
	case headerSet:
		head |= uint32(a.offset)<<8 | uint32(length&31) // 0 means 32
	case headerCopy:
		head = headerCopy<<28 | uint32(a.from)<<16 | uint32(length&31)
		second = uint32(a.field) << 16
	}
	binary.BigEndian.PutUint32(b[:], head)
	binary.BigEndian.PutUint32(b[4:], second)
	return binary.NativeEndian.Uint64(b[:]), nil
}

// headerActions returns the array that C gets.
func headerActions(list []HeaderAction) ([]uint64, error) {
	const most = mostCommand / 8
	if len(list) > most {
		return nil, &ibv.LimitError{What: "actions", Asked: uint64(len(list)), Limit: most, Where: "uverbs"}
	}
	var errs []error
	if len(list) == 0 {
		errs = append(errs, &ibv.ArgError{Arg: "actions", Got: "empty", Want: "one HeaderAction or more"})
	}
	words := make([]uint64, len(list))
	for i, a := range list {
		w, err := a.prm(fmt.Sprintf("actions[%d]", i))
		words[i], errs = w, append(errs, err)
	}
	return words, errors.Join(errs...)
}

// CreateHeaderAction makes an action that changes headers of the frames of rules in a table. FlowApply
// names it, or ibv.FlowHandle.
//
// C: mlx5dv_create_flow_action_modify_header(3), of libmlx5 v21.
func CreateHeaderAction(dev *ibv.Device, table FlowTable, actions ...HeaderAction) (*ibv.FlowAction, error) {
	const op = "create header action"
	words, err := headerActions(actions)
	if err != nil {
		return nil, opError(op, nameOf(dev), err)
	}
	lib, _, err := begin(dev, op).reach()
	if err != nil {
		return nil, err
	}
	return verbs.NewFlowAction(dev, op, func(handle uintptr) (uintptr, error) {
		h, err := lib.CreateFlowActionModifyHeader(handle, words, uint32(table))
		if err != nil {
			err = explainSteering(err, dev, fmt.Sprintf("%d changes of headers in table %v", len(words), table), -1)
		}
		return h, err
	})
}

// nameOf returns the name of a device that may be nil.
func nameOf(dev *ibv.Device) string {
	if dev == nil {
		return ""
	}
	return dev.Name()
}
