package plan

import (
	"cmp"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// EachPriority has frames of one priority after the other.
const EachPriority = 8

// IP reports whether the frames have headers of IP.
func (f *Frames) IP() bool { return f.Server.IsValid() }

// IPv6 reports whether those are of IPv6.
func (f *Frames) IPv6() bool { return f.Server.Is6() }

// Ports reports whether they have headers of UDP or TCP.
func (f *Frames) Ports() bool { return f.ServerPort != 0 }

// Kinds returns how many different frames a queue pair sends in turn.
func (f *Frames) Kinds() int {
	n := f.flows() * max(f.Burst, 1)
	if f.Priority == EachPriority {
		n *= EachPriority
	}
	return n
}

// Kind returns the flow and the priority of frame k of a queue pair.
func (f *Frames) Kind(k int) (flow int, priority uint8) {
	flow = k / max(f.Burst, 1) % f.flows()
	if f.Priority == EachPriority {
		return flow, uint8(k % EachPriority)
	}
	return flow, f.Priority
}

func (f *Frames) flows() int { return max(f.Flows, 1) }

// FlowsOf returns the numbers of the flows of queue pair i, by which their ports differ.
func (f *Frames) FlowsOf(i int) (first, n int) { return i * f.flows(), f.flows() }

// headers returns how many bytes of a frame are headers.
func (f *Frames) headers() uint64 {
	n := uint64(14)
	if f.VLAN {
		n += tagLen
	}
	switch {
	case !f.IP():
		return n
	case f.IPv6():
		n += 40
	default:
		n += 20
	}
	switch {
	case f.Ports() && f.TCP:
		n += 20
	case f.Ports():
		n += 8
	}
	return n
}

const (
	LeastFrame  = 64
	frameCRC    = 4  // counted among a frame's bytes, written by the adapter
	frameAround = 18 // what a frame has around its payload
	tagLen      = 4  // of a VLAN's tag, counted among the payload as perftest does
	mostKinds   = 1 << 14
)

// Posted returns how many bytes of a message of a size are posted.
func (p *Plan) Posted(size uint64) uint64 {
	if p.Transport == wire.RawEth {
		return size - frameCRC
	}
	return size
}

// FramePayload returns how many bytes of a frame are not Ethernet's.
func FramePayload(size uint64) int { return int(size) - frameAround }

// checkFrames checks options that only frames have, and those that they do not have.
func (p *Plan) checkFrames() []error {
	f := &p.Frames
	if p.Transport != wire.RawEth {
		return []error{wrong(*f != (Frames{}), "fields of frames (-B -E -J -j -K -k -L -Y --client --tcp --vlan-en "+
			"--flows --promiscuous --sniffer): only raw Ethernet (-c RawEth) has them")}
	}
	head := f.headers() + frameCRC
	errs := append(first(unconnected(p)...),
		cmp.Or(
			wrong(p.Load.Size < LeastFrame, "size (-s) %d < %d, the smallest Ethernet frame", p.Load.Size, LeastFrame),
			wrong(p.Load.Size < head, "size (-s) %d < %d, the headers of the frame and its checksum", p.Load.Size,
				head)),
		wrong(f.Own == ([6]byte{}),
			"own address (-B): required by raw Ethernet (-c RawEth), such as e4:1d:2d:00:00:01"),
		wrong(f.Peer == ([6]byte{}) && (p.Client() || p.Load.Bidirectional || !p.Bandwidth()),
			"address of the peer (-E): required by raw Ethernet (-c RawEth), such as e4:1d:2d:00:00:02"),
		cmp.Or(
			wrong(f.Server.IsValid() != f.Client.IsValid(), "IP addresses (-J, -j): give both or none"),
			wrong(f.Server.Is4() != f.Client.Is4(), "IP addresses (-J %v, -j %v): must be both IPv4 or both IPv6",
				f.Server, f.Client)),
		cmp.Or(
			wrong((f.ServerPort == 0) != (f.ClientPort == 0), "ports (-K, -k): give both or none"),
			wrong(f.Ports() && !f.IP(), "ports (-K, -k): also give the IP addresses (-J, -j)"),
			wrong(f.TCP && !f.Ports(), "TCP (--tcp): needs ports (-K, -k)")),
		wrong(f.Priority > EachPriority, "priority (--vlan-pcp) %d; allowed: 0 to 7, or 8 for all in turn", f.Priority))
	return append(errs, p.checkFlows()...)
}

// unconnected returns why the ends of frames, which do not connect, cannot have what was asked for.
func unconnected(p *Plan) []error {
	f, q := &p.Frames, &p.Queues
	errs := []error{
		wrong(p.Verb != wire.Send, "connection type (-c) RawEth: only for send; use RC"),
		wrong(p.Peer.Host != "", "server %q: raw Ethernet (-c RawEth) does not connect; name the peer by its address "+
			"(-E) and give --client", p.Peer.Host),
	}
	if p.Peer.RDMACM {
		return errs
	}
	return append(errs,
		unfit(p.Load.Bidirectional && p.Load.Duration > 0, "duration",
			"bidirectional (-b) for a time (-D): the ends of raw Ethernet (-c RawEth) cannot notify each other when "+
				"it is over; give iterations (-n)"),
		unfit(q.QPs > 1 && !f.Ports(), "qp",
			"queue pairs (-q) %d: raw Ethernet (-c RawEth) tells their frames apart by ports; give them (-J -j -K -k)",
			q.QPs),
		unfit(q.QPs > 1 && q.Threads != q.QPs, "qp",
			"queue pairs (-q) %d: raw Ethernet (-c RawEth) has a CQ for each; give as many --threads", q.QPs),
		wrong(p.Sweep(), "sizes (-a, --sizes) and rounds (--rounds): the ends of raw Ethernet (-c RawEth) cannot "+
			"synchronize between sizes; give one (-s), once"),
		unfit(q.UseSRQ, "use-srq", "shared receive queue (--use-srq): raw Ethernet (-c RawEth) has none"),
		unfit(q.SendImm, "send-with-imm", "immediate data (--send-with-imm): raw Ethernet (-c RawEth) has none"),
		wrong(p.Link.GIDIndex != Auto, "gid index (-x) %d: raw Ethernet (-c RawEth) has no GIDs", p.Link.GIDIndex),
		unfit(q.Inline > 0, "inline-size", "inline size (-I) %d: raw Ethernet (-c RawEth) has none", q.Inline))
}

// checkFlows checks frames that differ from each other.
func (p *Plan) checkFlows() []error {
	f, n := &p.Frames, p.Queues.QPs
	last := max(f.ServerPort, f.ClientPort)
	errs := first(
		wrong(f.Flows < 0 || f.Burst < 0 || f.Flows > mostKinds || f.Burst > mostKinds || f.Kinds() > mostKinds,
			"flows (--flows) %d in bursts (--flows-burst) of %d; allowed: 1 to %d frames in all", f.Flows, f.Burst,
			mostKinds),
		wrong(f.Flows > 1 && !f.Ports(), "flows (--flows) %d: need ports, by which they differ (-J -j -K -k)", f.Flows),
		wrong(f.Burst > 1 && f.Flows < 2, "burst (--flows-burst) %d: needs flows (--flows)", f.Burst),
		wrong(f.Ports() && int(last)+n*f.flows()-1 > 65535,
			"ports (-K, -k): %d flows of %d queue pairs from port %d go beyond 65535", f.flows(), n, last))
	for _, option := range []string{"flows", "flows-burst", "vlan-pcp"} {
		errs = append(errs, unfit(errs[0] == nil && f.Kinds() > 1 && !p.Bandwidth(), option,
			"flows and priorities (--flows, --vlan-pcp 8): only for bandwidth tests"))
	}
	return errs
}
