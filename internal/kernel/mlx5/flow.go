package mlx5

import (
	"encoding/binary"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
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

// specs translates the specs of a struct ibv_flow_attr, and returns the counters of the rule, nil if it has none.
func (c steering) specs(b []byte, n uint8) (specs []byte, counts *counters, err error) {
	bad := func(err error) ([]byte, *counters, error) { return nil, nil, err }
	for range n {
		if len(b) < 6 {
			return bad(syscall.EINVAL)
		}
		typ, size := binary.NativeEndian.Uint32(b), int(binary.NativeEndian.Uint16(b[4:]))
		if size < 6 || size > len(b) {
			return bad(syscall.EINVAL)
		}
		spec := abi.UverbsFlowSpecHdr{Type: typ}
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
		case typ == abi.IBV_FLOW_SPEC_ACTION_COUNT && size >= 16:
			n, err := get[counters](c.v, handle(binary.NativeEndian.Uint64(b[8:])))
			if err != nil {
				return bad(err)
			}
			if counts != nil || n.c != c.context {
				return bad(syscall.EINVAL)
			}
			counts = n
			rest = append(uverbs.Bytes(&n.number)[:4:4], 0, 0, 0, 0)
		case typ == abi.IBV_FLOW_SPEC_ACTION_HANDLE: // of ESP
			return bad(syscall.EOPNOTSUPP)
		default:
			return bad(syscall.EINVAL)
		}
		spec.Size = uint16(len(uverbs.Bytes(&spec)) + len(rest))
		specs = append(append(specs, uverbs.Bytes(&spec)...), rest...)
		b = b[size:]
	}
	return specs, counts, nil
}

// CreateFlow makes a steering rule. attr is a struct ibv_flow_attr and its specs.
func (q *qp) CreateFlow(attr []byte) (*flow, error) {
	var a abi.FlowAttr
	n := copy(uverbs.Bytes(&a), attr)
	if n < len(uverbs.Bytes(&a)) || a.CompMask != 0 {
		return nil, syscall.EINVAL
	}
	specs, counts, err := steering{q.c}.specs(attr[n:], a.NumOfSpecs)
	if err != nil {
		return nil, err
	}
	f := &flow{kernelObject: newKernelObject(q.c), counts: counts}
	create := func(d uverbs.Driver) (err error) {
		f.number, err = q.c.file.CreateFlow(q.kernel, &abi.UverbsFlowAttr{Type: a.Type,
			Priority: a.Priority, NumOfSpecs: a.NumOfSpecs, Port: a.Port, Flags: a.Flags}, specs, d)
		return err
	}
	if counts != nil {
		err = counts.count(create)
	} else {
		err = create(uverbs.Driver{})
	}
	return f, err
}

// DestroyFlow ends a steering rule.
func (f *flow) DestroyFlow() error {
	err := f.c.destroyed(f.c.file.DestroyFlow(f.number))
	if err == nil && f.counts != nil {
		f.counts.ended()
	}
	return err
}

// CreateFlowActionESP returns EOPNOTSUPP, as kernels since Linux 5.18 do.
func (v *Verbs) CreateFlowActionESP(handle, *abi.ESP) (handle, error) { return 0, syscall.EOPNOTSUPP }
