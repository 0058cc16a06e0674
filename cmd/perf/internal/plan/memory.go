package plan

import "github.com/pureverbs/pureverbs/cmd/perf/internal/wire"

// OutOfReach reports whether the processor cannot read and write the memory like its own.
func (m *Memory) OutOfReach() bool { return m.Kind == DeviceMemory || m.Kind == CUDA }

// Relaxed reports whether the device may write to memory in any order. In write lat the last byte of a message
// represents all of it.
func (p *Plan) Relaxed() bool {
	return !p.Memory.Ordered && (p.Verb != wire.Write || p.Bandwidth())
}

// checkMemory checks the memory of messages, and the CPUs of the test.
func (p *Plan) checkMemory(c *complaints) {
	m := &p.Memory
	if m.Offset < 0 || m.Offset > 0 && m.Kind != File {
		c.unfit("mmap-offset", "offset (--mmap-offset) %d: needs a file (--mmap) and is at least 0", m.Offset)
	}
	if p.Place.NoPin && p.Place.CPUs != nil {
		c.unfit("no-pin", "give --cpus or --no-pin, not both")
	}
	switch both := "give only one of --numa-node, --cpus and --no-pin"; {
	case p.Place.Node == Auto:
	case p.Place.CPUs != nil:
		c.add("%s", both)
	case p.Place.NoPin:
		c.unfit("no-pin", "%s", both)
	}
	if p.Place.Node < Auto {
		c.add("NUMA node (--numa-node) %d is negative", p.Place.Node)
	}
	if p.Queues.MRPerQP && m.Kind == File {
		c.unfit("mr-per-qp",
			"memory per queue pair (--mr-per-qp): each would begin at the same byte of the file (--mmap)")
	}
	if m.GPU < 0 {
		c.add("gpu (--use-cuda) %d is negative", m.GPU)
	}
	if (m.Dmabuf || m.DataDirect) && m.Kind != CUDA {
		c.add("dma-buf (--use-cuda-dmabuf, --use-data-direct): needs a gpu; give --use-cuda or --use-cuda-bus-id")
	} else if m.DataDirect && !m.Dmabuf {
		c.add("data direct (--use-data-direct): needs a dma-buf (--use-cuda-dmabuf)")
	}
	if (m.OnDemand || m.Implicit) && m.OutOfReach() {
		c.add("on-demand paging (--odp, --odp-implicit): %v has no pages of this process", m.Kind)
	}
	if m.OutOfReach() && p.Verb == wire.Write && !p.Bandwidth() {
		c.add("write lat waits for a byte to change in memory, which the processor does not see in %v; give "+
			"--write-with-imm, whose completions tell, or use send lat",
			m.Kind)
	}
	if m.OutOfReach() && (p.Transport == wire.RawEth || p.Transport == wire.UD && p.Peer.RDMACM) {
		c.add("connection type (-c) %v: its headers are the processor's to write and read, which %v is out of reach of",
			p.Transport, m.Kind)
	}
	if (m.OutOfReach() || m.Null) && p.Queues.Inline > 0 {
		c.unfit("inline-size",
			"inline size (-I) %d: inline messages are copied by the processor, past %s", p.Queues.Inline, m.posted())
	}
	switch {
	case !m.Null:
	case p.Verb != wire.Write && p.Verb != wire.Read || p.Verb == wire.Write && !p.Bandwidth():
		add := c.add
		if p.Verb == wire.Write || p.Verb == wire.WriteImm { // perftest takes it there
			add = func(format string, a ...any) { c.unfit("use-null-mr", format, a...) }
		}
		add("null MR (--use-null-mr): %v %v needs what it sends and receives; write bw, read bw and read lat do not",
			p.Verb, p.Metric)
	case p.Verify:
		c.add("payload check (--verify): a null MR (--use-null-mr) has no payload")
	case m.OutOfReach():
		c.add("null MR (--use-null-mr): not with %v", m.Kind)
	}
}

// posted names what work requests point to.
func (m *Memory) posted() string {
	if m.Null {
		return "the null MR (--use-null-mr)"
	}
	return "the " + m.Kind.String()
}
