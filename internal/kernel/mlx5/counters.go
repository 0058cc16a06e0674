package mlx5

import (
	"runtime"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

const objectCounters = 15 // C: UVERBS_OBJECT_COUNTERS

// CreateCounters makes counters, which count nothing yet.
func (c steering) CreateCounters() (*counters, error) {
	n := &counters{kernelObject: newKernelObject(c.context)}
	return n, unsupported(c.file.Method("create_counters", objectCounters, 0, uverbs.New(0, &n.number)))
}

// DestroyCounters ends counters.
func (n *counters) DestroyCounters() error {
	return n.c.destroyed(n.c.file.Method("destroy_counters", objectCounters, 1, uverbs.Handle(0, n.number)))
}

// AttachCountersPointFlow makes an index count something, in the rules that are made later.
func (n *counters) AttachCountersPointFlow(a *abi.CounterAttachAttr, rule handle) error {
	if rule != 0 || a.CompMask != 0 || a.CounterDesc > abi.IBV_COUNTER_BYTES {
		return syscall.EOPNOTSUPP
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rules > 0 {
		return syscall.EBUSY
	}
	n.points = append(n.points, abi.MLX5IBFlowCountersDesc{Description: a.CounterDesc, Index: a.Index})
	return nil
}

// ReadCounters fills in values.
func (n *counters) ReadCounters(values []uint64, flags uint32) error {
	return n.c.file.Method("read_counters", objectCounters, 2, uverbs.Handle(0, n.number),
		uverbs.Out(1, uverbs.BytesOf(values)), uverbs.Uint32(2, flags))
}

// count makes a rule that the counters count. The first rule names what each index counts.
func (n *counters) count(create func(uverbs.Driver) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var d uverbs.Driver
	if n.rules == 0 {
		if len(n.points) == 0 {
			return syscall.EINVAL
		}
		points := uverbs.BytesOf(n.points)
		defer runtime.KeepAlive(points)
		d.In = append(uverbs.Bytes(&abi.MLX5IBCreateFlow{NcountersData: 1}), uverbs.Bytes(&abi.MLX5IBFlowCountersData{
			CountersData: uverbs.Address(points), Ncounters: uint32(len(n.points))})...)
	}
	if err := create(d); err != nil {
		return err
	}
	n.rules++
	return nil
}

// ended counts a rule that has ended.
func (n *counters) ended() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules--
}
