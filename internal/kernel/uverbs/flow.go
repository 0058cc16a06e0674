package uverbs

import "github.com/pureverbs/pureverbs/internal/abi"

// CreateFlow makes a steering rule. specs are those of the kernel, one behind the other.
func (f *File) CreateFlow(qp uint32, a *abi.UverbsFlowAttr, specs []byte, d Driver) (uint32, error) {
	q := &abi.UverbsCreateFlow{QPHandle: qp, FlowAttr: *a}
	q.FlowAttr.Size = uint16(len(specs))
	r := new([2]uint32)
	err := f.do(&createFlow, request{append(append([]byte(nil), Bytes(q)...), specs...), Bytes(r), d})
	return r[1], err
}

// DestroyFlow ends a steering rule.
func (f *File) DestroyFlow(handle uint32) error {
	q := &[2]uint32{1: handle}
	return f.do(&destroyFlow, request{in: Bytes(q)}, Handle(0, handle))
}
