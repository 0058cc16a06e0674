package plan

import "github.com/pureverbs/pureverbs/cmd/perf/internal/wire"

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
func (p *Plan) checkFrames(c *complaints) {
	f := &p.Frames
	if p.Transport != wire.RawEth {
		if *f != (Frames{}) {
			c.add("fields of frames (-B -E -J -j -K -k -L -Y --client --tcp --vlan-en --flows --promiscuous " +
				"--sniffer): only raw Ethernet (-c RawEth) has them")
		}
		return
	}
	switch {
	case p.Verb != wire.Send:
		c.add("connection type (-c) RawEth: only for send; use RC")
	case p.Peer.Host != "":
		c.add("server %q: raw Ethernet (-c RawEth) does not connect; name the peer by its address (-E) and give "+
			"--client", p.Peer.Host)
	case p.Peer.RDMACM:
	case p.Load.Bidirectional && p.Load.Duration > 0:
		c.unfit("duration",
			"bidirectional (-b) for a time (-D): the ends of raw Ethernet (-c RawEth) cannot notify each other "+
				"when it is over; give iterations (-n)")
	case p.Queues.QPs > 1 && !f.Ports():
		c.unfit("qp", "queue pairs (-q) %d: raw Ethernet (-c RawEth) tells their frames apart by ports; "+
			"give them (-J -j -K -k)", p.Queues.QPs)
	case p.Queues.QPs > 1 && p.Queues.Threads != p.Queues.QPs:
		c.unfit("qp",
			"queue pairs (-q) %d: raw Ethernet (-c RawEth) has a CQ for each; give as many --threads", p.Queues.QPs)
	case p.Sweep():
		c.add("sizes (-a, --sizes) and rounds (--rounds): the ends of raw Ethernet (-c RawEth) cannot " +
			"synchronize between sizes; " +
			"give one (-s), once")
	case p.Queues.UseSRQ:
		c.unfit("use-srq", "shared receive queue (--use-srq): raw Ethernet (-c RawEth) has none")
	case p.Queues.SendImm:
		c.unfit("send-with-imm", "immediate data (--send-with-imm): raw Ethernet (-c RawEth) has none")
	case p.Link.GIDIndex != Auto:
		c.add("gid index (-x) %d: raw Ethernet (-c RawEth) has no GIDs", p.Link.GIDIndex)
	case p.Queues.Inline > 0:
		c.unfit("inline-size", "inline size (-I) %d: raw Ethernet (-c RawEth) has none", p.Queues.Inline)
	}
	if p.Load.Size < LeastFrame {
		c.add("size (-s) %d < %d, the smallest Ethernet frame", p.Load.Size, LeastFrame)
	} else if n := f.headers() + frameCRC; p.Load.Size < n {
		c.add("size (-s) %d < %d, the headers of the frame and its checksum", p.Load.Size, n)
	}
	if f.Own == ([6]byte{}) {
		c.add("own address (-B): required by raw Ethernet (-c RawEth), such as e4:1d:2d:00:00:01")
	}
	if f.Peer == ([6]byte{}) && (p.Client() || p.Load.Bidirectional || !p.Bandwidth()) {
		c.add("address of the peer (-E): required by raw Ethernet (-c RawEth), such as e4:1d:2d:00:00:02")
	}
	if f.Server.IsValid() != f.Client.IsValid() {
		c.add("IP addresses (-J, -j): give both or none")
	} else if f.Server.Is4() != f.Client.Is4() {
		c.add("IP addresses (-J %v, -j %v): must be both IPv4 or both IPv6", f.Server, f.Client)
	}
	switch {
	case (f.ServerPort == 0) != (f.ClientPort == 0):
		c.add("ports (-K, -k): give both or none")
	case f.Ports() && !f.IP():
		c.add("ports (-K, -k): also give the IP addresses (-J, -j)")
	case f.TCP && !f.Ports():
		c.add("TCP (--tcp): needs ports (-K, -k)")
	}
	p.checkFlows(c)
}

// checkFlows checks frames that differ from each other.
func (p *Plan) checkFlows(c *complaints) {
	f := &p.Frames
	if f.Priority > EachPriority {
		c.add("priority (--vlan-pcp) %d; allowed: 0 to 7, or 8 for all in turn", f.Priority)
	}
	last := max(f.ServerPort, f.ClientPort)
	switch {
	case f.Flows < 0 || f.Burst < 0 || f.Flows > mostKinds || f.Burst > mostKinds || f.Kinds() > mostKinds:
		c.add("flows (--flows) %d in bursts (--flows-burst) of %d; allowed: 1 to %d frames in all", f.Flows, f.Burst,
			mostKinds)
	case f.Flows > 1 && !f.Ports():
		c.add("flows (--flows) %d: need ports, by which they differ (-J -j -K -k)", f.Flows)
	case f.Burst > 1 && f.Flows < 2:
		c.add("burst (--flows-burst) %d: needs flows (--flows)", f.Burst)
	case f.Ports() && int(last)+p.Queues.QPs*f.flows()-1 > 65535:
		c.add("ports (-K, -k): %d flows of %d queue pairs from port %d go beyond 65535", f.flows(), p.Queues.QPs, last)
	case f.Kinds() > 1 && !p.Bandwidth():
		for _, option := range []string{"flows", "flows-burst", "vlan-pcp"} {
			c.unfit(option, "flows and priorities (--flows, --vlan-pcp 8): only for bandwidth tests")
		}
	}
}
