package plan

import (
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/flags"
)

// LatencyDef defines one latency sample.
type LatencyDef uint8

// The definitions.
const (
	// RoundTrip is perftest's: from one posting to the next; half of that if the peer replies (write, send), all of it
	// if it does not need to (read).
	RoundTrip LatencyDef = 1
	// ToCompletion is from the posting to the completion of the same message.
	ToCompletion LatencyDef = 2
)

var latencyDefNames = []string{RoundTrip: "perftest", ToCompletion: "cqe"}

// String returns the name as the command line has it.
func (d LatencyDef) String() string { return flags.Name("LatencyDef", int64(d), latencyDefNames) }

// Auto leaves a choice to New, or to the device.
const Auto = -1

// Options is one test as one end asks for it. Zero or Auto, as named, is a choice left open.
type Options struct {
	Verb      wire.Verb
	Metric    wire.Metric
	Transport wire.Transport
	Atomic    wire.AtomicType // of atomic

	Frames Frames // RawEth

	Multicast bool    // UD, to a group
	Group     ibv.GID // zero: perftest's

	Peer   Peer
	Link   Link
	Load   Load
	Queues Queues
	Place  Place
	Report Report

	Memory  Memory
	Payload []byte // what messages are made of, again and again; nil: a pattern
	Verify  bool
}

// Peer is how the ends meet.
type Peer struct {
	Host     string     // of the server; empty: be the server
	Bind     string     // address that a server listens on, and a client comes from; empty: any
	Port     int        // TCP, or rdma_cm
	Ports    wire.Ports // a server takes one of them, where Port is 0
	ListenFD int        // of a socket that listens already, in place of Bind and Port; 0: none

	RDMACM     bool // connect by rdma_cm
	CMExchange bool // meet by rdma_cm, and connect the queue pairs as over TCP; RDMACM has it in it
	RetryCount int  // with RDMACM: how often a lost packet is repeated
	IPv6       bool // meet at an address of IPv6

	Timeout  time.Duration // of a step of the exchange, and without any completion
	Patience time.Duration // how long a client tries to reach a server
	ShortNeg bool
}

// Link is the device and the way to the peer.
type Link struct {
	Device     string // empty: the first one with an active port; with RDMACM the one that the address leads to
	IBPort     uint8
	DualPort   bool // QPs on port 1, and as many on port 2
	GIDIndex   int  // Auto: the best one
	GIDv6      bool // of IPv6, where GIDIndex is Auto
	MTU        int  // bytes; 0: that of the port
	QPTimeout  uint8
	SL         uint8
	TClass     uint8
	FlowLabels []uint32 // of the queue pairs, in turn; nil: 0
	PKeyIndex  uint16
	OutReads   int // outstanding reads; 0: the maximum of the device
}

// Load has the sizes of messages, how many are sent, for how long, how fast and in which direction.
type Load struct {
	Size     uint64 // 0: 64 KiB for bandwidth, 2 for latency, 8 MiB with All
	All      bool   // powers of two from 2 to Size; stock peers always run to 8 MiB
	Iters    uint64 // messages per queue pair and size; 0: 5000 for write bw, else 1000
	Duration time.Duration
	Margin   time.Duration // before and after the sample; Auto: a quarter of Duration
	Infinite bool          // until it is interrupted
	Interval time.Duration // of figures in between; 0: none, or DefaultInterval if Infinite
	Rate     Rate          // no more than that
	SizeList []uint64      // the sizes, one after the other; with All
	Rounds   int           // how many times all sizes are measured; 0: once
	Gap      time.Duration // of a test of latency: before each message, which does not count

	Bidirectional bool
	Reversed      bool // the server has the client's part, and the client the server's
	WarmUp        bool // move messages first that do not count
}

// Queues has the queue pairs of this end, and how it posts and waits.
type Queues struct {
	QPs      int
	Threads  int  // each with an equal share of the queue pairs, and its own CQs; 0: one
	TxDepth  int  // 0: 128 for bandwidth, 1 for latency
	RxDepth  int  // 0: 512, send only
	SendImm  bool // messages of send carry immediate data
	UseSRQ   bool // one queue of depth RxDepth for all receives; with XRC always
	PostList int
	RecvList int  // receives that are posted at once; 0: as many as were used up
	PollMax  int  // completions that are taken at once; 0: 16
	CQMod    int  // 0: 100, or less where that would mislead
	MRPerQP  bool // separate memory for each queue pair
	Inline   int  // bytes; Auto: perftest's choice for latency, 0 for bandwidth
	Events   bool // sleep for completions
	Vector   int  // interrupt vector of those
}

// Place is where this end runs.
type Place struct {
	CPUs  []int // nil: those near the device
	NoPin bool  // leave the choice of CPUs and memory to the kernel
	Node  int   // the NUMA node; Auto: that of the device
}

// Report has the additional figures, and how all are shown.
type Report struct {
	ReportBoth   bool // show both directions separately
	PerPort      bool // show both ports of DualPort separately
	NoPeak       bool
	Counters     bool     // read the port's counters
	CounterNames []string // at these alone; nil: at all
	CPUUtil      bool     // print what this end's processor did
	Gbits        bool
	LatencyDef   LatencyDef
	Unsorted     bool // keep the samples of latency, in order
	HWTimestamps bool // the times between completions, by the adapter's clock
}

// Plan is one test as one end runs it. New makes it, and it is passed by value, so that no package can change
// another's.
type Plan struct {
	Options // no choice is open, but for MTU, GIDIndex, OutReads and Inline, which are the device's
}

// Frames has the content of Ethernet frames (RawEth). There is no exchange: both ends are given all of it.
type Frames struct {
	Connects   bool // this end begins: the client, which has no server to connect to
	Own, Peer  [6]byte
	EtherType  uint16 // 0: that of the IP addresses, else the length as of 802.3
	Server     netip.Addr
	Client     netip.Addr
	ServerPort uint16 // UDP or TCP, both or none; those of further flows and queue pairs follow
	ClientPort uint16
	TCP        bool
	HopLimit   uint8 // 0: 64

	VLAN     bool  // frames have a tag, of VLAN 1 as perftest's
	Priority uint8 // in the tag; EachPriority: all of them in turn

	Flows int // pairs of ports that the frames have in turn; 0: one
	Burst int // frames of a flow before those of the next; 0: one

	Promiscuous bool // receive also what no other rule takes
	Sniffer     bool // receive a copy of all that the port receives
}

// Rate is a limit of this end's sending rate, enforced by its software. The zero Rate is no limit.
type Rate struct {
	Limit float64 // in Unit
	Unit  RateUnit
	Burst int // messages that go out without a pause; 0: as deep as the send queue is, or what the adapter does

	Hardware bool // the adapter enforces it
	Packet   int  // packet size that the adapter assumes; 0: not given
}

// Memory is the memory of an end's messages, and how it is registered. The peer need not know.
type Memory struct {
	Kind   MemoryKind
	File   string
	Offset int64 // in the file

	GPU        int    // its number
	BusID      string // its PCI address; "": GPU has the number
	Dmabuf     bool   // the GPU's memory is registered as a dma-buf, and not by peer memory
	DataDirect bool   // past the root complex

	OnDemand bool
	Implicit bool // on demand, by a registration of the whole address space
	Null     bool // what this end posts names a null MR
	Ordered  bool // no relaxed ordering on PCIe
}
