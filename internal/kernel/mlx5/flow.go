package mlx5

import (
	"encoding/binary"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// filters are the sizes of what specs match, and where it begins in the spec of libibverbs. The kernel has it, and the
// mask, behind 8 bytes.
var filters = map[uint32]struct{ size, at int }{
	abi.IBV_FLOW_SPEC_ETH:          {16, 6},
	abi.IBV_FLOW_SPEC_IPV4:         {8, 8},
	abi.IBV_FLOW_SPEC_IPV6:         {40, 8},
	abi.IBV_FLOW_SPEC_IPV4_EXT:     {12, 8},
	abi.IBV_FLOW_SPEC_ESP:          {8, 8},
	abi.IBV_FLOW_SPEC_TCP:          {4, 6},
	abi.IBV_FLOW_SPEC_UDP:          {4, 6},
	abi.IBV_FLOW_SPEC_VXLAN_TUNNEL: {4, 8},
	abi.IBV_FLOW_SPEC_GRE:          {8, 8},
	abi.IBV_FLOW_SPEC_MPLS:         {4, 8},
}

// flowSpecs translates the specs of a struct ibv_flow_attr.
func flowSpecs(b []byte, n uint8) (specs []byte, err error) {
	for range n {
		if len(b) < 6 {
			return nil, syscall.EINVAL
		}
		typ, size := binary.NativeEndian.Uint32(b), int(binary.NativeEndian.Uint16(b[4:]))
		if size < 6 || size > len(b) {
			return nil, syscall.EINVAL
		}
		spec := uverbs.FlowSpec{Type: typ}
		var rest []byte
		f, known := filters[typ&^abi.IBV_FLOW_SPEC_INNER]
		switch {
		case known && size >= f.at+2*f.size:
			if typ&^abi.IBV_FLOW_SPEC_INNER == abi.IBV_FLOW_SPEC_IPV4_EXT { // the kernel has one, of this size
				spec.Type -= abi.IBV_FLOW_SPEC_IPV4_EXT - abi.IBV_FLOW_SPEC_IPV4
			}
			rest = b[f.at : f.at+2*f.size]
		case typ == abi.IBV_FLOW_SPEC_ACTION_TAG && size >= 12:
			rest = append(b[8:12:12], 0, 0, 0, 0)
		case typ == abi.IBV_FLOW_SPEC_ACTION_DROP:
		case typ == abi.IBV_FLOW_SPEC_ACTION_HANDLE, typ == abi.IBV_FLOW_SPEC_ACTION_COUNT:
			return nil, control.ErrNoOp
		default:
			return nil, syscall.EINVAL
		}
		spec.Size = uint16(len(uverbs.Bytes(&spec)) + len(rest))
		specs = append(append(specs, uverbs.Bytes(&spec)...), rest...)
		b = b[size:]
	}
	return specs, nil
}

// CreateFlow makes a steering rule. attr is a struct ibv_flow_attr and its specs.
func (s *steering) CreateFlow(_, h handle, attr []byte) (handle, error) {
	q, err := get[qp](s.v, h)
	if err != nil {
		return 0, err
	}
	var a abi.FlowAttr
	n := copy(uverbs.Bytes(&a), attr)
	if n < len(uverbs.Bytes(&a)) || a.CompMask != 0 {
		return 0, syscall.EINVAL
	}
	specs, err := flowSpecs(attr[n:], a.NumOfSpecs)
	if err != nil {
		return 0, err
	}
	f := &flow{object: object{c: q.c}}
	f.number, err = q.c.file.CreateFlow(q.kernel, &uverbs.FlowAttr{Type: a.Type, Priority: a.Priority,
		NumOfSpecs: a.NumOfSpecs, Port: a.Port, Flags: a.Flags}, specs)
	if err != nil {
		return 0, err
	}
	f.handle = s.v.table.add(f)
	return f.handle, nil
}

// DestroyFlow ends a steering rule.
func (s *steering) DestroyFlow(_, h handle) error {
	f, err := get[flow](s.v, h)
	if err != nil {
		return err
	}
	if _, err := f.c.finish("destroy_flow", f.c.file.DestroyFlow(f.number)); err != nil {
		return err
	}
	s.v.table.remove(h)
	return nil
}
