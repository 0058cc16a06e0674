package uverbs

import "structs"

// FlowAttr is struct ib_uverbs_flow_attr.
type FlowAttr struct {
	_              structs.HostLayout
	Type           uint32
	Size, Priority uint16 // Size of the specs
	NumOfSpecs     uint8
	_              [2]uint8
	Port           uint8
	Flags          uint32
}

// FlowSpec begins a spec: struct ib_uverbs_flow_spec_hdr. What it matches and a mask follow, each of the same size.
type FlowSpec struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	_    uint16
}

// CreateFlow makes a steering rule. specs are those of the kernel, one behind the other.
func (f *File) CreateFlow(qp uint32, a *FlowAttr, specs []byte, d Driver) (uint32, error) {
	q := &struct {
		_        structs.HostLayout
		mask, qp uint32
		attr     FlowAttr
	}{qp: qp, attr: *a}
	q.attr.Size = uint16(len(specs))
	r := new([2]uint32)
	err := f.do(&createFlow, request{append(append([]byte(nil), Bytes(q)...), specs...), Bytes(r), d})
	return r[1], err
}

// DestroyFlow ends a steering rule.
func (f *File) DestroyFlow(handle uint32) error {
	q := &[2]uint32{1: handle}
	return f.do(&destroyFlow, request{in: Bytes(q)}, Handle(0, handle))
}
