package plan

import (
	"cmp"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// OutOfReach reports whether the processor cannot read and write the memory like its own.
func (m *Memory) OutOfReach() bool { return m.Kind == DeviceMemory || m.Kind == CUDA }

// Relaxed reports whether the device may write to memory in any order. In write lat the last byte of a message
// represents all of it.
func (p *Plan) Relaxed() bool {
	return !p.Memory.Ordered && (p.Verb != wire.Write || p.Bandwidth())
}

// checkMemory checks the memory of messages, and the CPUs of the test.
func (p *Plan) checkMemory() []error {
	m, lat, away := &p.Memory, !p.Bandwidth(), p.Memory.OutOfReach()
	const placed = "give only one of --numa-node, --cpus and --no-pin"
	errs := []error{
		unfit(m.Offset < 0 || m.Offset > 0 && m.Kind != File, "mmap-offset",
			"offset (--mmap-offset) %d: needs a file (--mmap) and is at least 0", m.Offset),
		unfit(p.Place.NoPin && p.Place.CPUs != nil, "no-pin", "give --cpus or --no-pin, not both"),
		cmp.Or(wrong(p.Place.Node != Auto && p.Place.CPUs != nil, placed),
			unfit(p.Place.Node != Auto && p.Place.NoPin, "no-pin", placed)),
		wrong(p.Place.Node < Auto, "NUMA node (--numa-node) %d is negative", p.Place.Node),
		unfit(p.Queues.MRPerQP && m.Kind == File, "mr-per-qp",
			"memory per queue pair (--mr-per-qp): each would begin at the same byte of the file (--mmap)"),
		wrong(m.GPU < 0, "gpu (--use-cuda) %d is negative", m.GPU),
		cmp.Or(
			wrong((m.Dmabuf || m.DataDirect) && m.Kind != CUDA,
				"dma-buf (--use-cuda-dmabuf, --use-data-direct): needs a gpu; give --use-cuda or --use-cuda-bus-id"),
			wrong(m.DataDirect && !m.Dmabuf, "data direct (--use-data-direct): needs a dma-buf (--use-cuda-dmabuf)")),
		wrong((m.OnDemand || m.Implicit) && away,
			"on-demand paging (--odp, --odp-implicit): %v has no pages of this process", m.Kind),
		wrong(away && p.Verb == wire.Write && lat, "write lat waits for a byte to change in memory, which the "+
			"processor does not see in %v; give --write-with-imm, whose completions tell, or use send lat", m.Kind),
		wrong(away && (p.Transport == wire.RawEth || p.Transport == wire.UD && p.Peer.RDMACM), "connection type (-c) "+
			"%v: its headers are the processor's to write and read, which %v is out of reach of", p.Transport, m.Kind),
		unfit((away || m.Null) && p.Queues.Inline > 0, "inline-size",
			"inline size (-I) %d: inline messages are copied by the processor, past %s", p.Queues.Inline, m.posted()),
	}
	if !m.Null {
		return errs
	}
	const needs = "null MR (--use-null-mr): %v %v needs what it sends and receives; write bw, read bw and read lat " +
		"do not"
	other := p.Verb != wire.Write && p.Verb != wire.Read || p.Verb == wire.Write && lat
	writes := p.Verb == wire.Write || p.Verb == wire.WriteImm // perftest takes it there
	return append(errs, cmp.Or(
		unfit(other && writes, "use-null-mr", needs, p.Verb, p.Metric),
		wrong(other, needs, p.Verb, p.Metric),
		wrong(p.Verify, "payload check (--verify): a null MR (--use-null-mr) has no payload"),
		wrong(away, "null MR (--use-null-mr): not with %v", m.Kind)))
}

// posted names what work requests point to.
func (m *Memory) posted() string {
	if m.Null {
		return "the null MR (--use-null-mr)"
	}
	return "the " + m.Kind.String()
}
