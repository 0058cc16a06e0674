package command

import (
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// flagRow is a row of the table of a test's flags.
type flagRow struct {
	names    string   // the letter if there is one, the name, and other names of perftest
	tests    string   // the verbs and metrics that have it; empty: all
	value    any      // where its value is stored; nil: only given or not
	text     string   // for --help
	among    string   // the words that it takes
	excludes string   // names of flags that it cannot be given with
	needs    need     // the flag that must be given also
	check    check    // what its value must be
	only     [2]int64 // the least and the most that perftest takes, if rdmaperf takes more
	idle     string   // why it has no effect; perftest's, which is taken
	refused  string   // why it is refused; perftest's
}

// section is a part of the table, with its heading in --help.
type section struct {
	title string
	flags []flagRow
}

// Titles of sections.
const (
	hidden      = "" // --help does not show it
	framesTitle = "Raw Ethernet (send -c RawEth)"
)

// table declares the flags of tests: perftest's letters and names where it has them.
func table(o *options) []section {
	return []section{
		{"Device and connection", connectionFlags(o)},
		{"Server and exchange", exchangeFlags(o)},
		{"Load", loadFlags(o)},
		{"Queues", queueFlags(o)},
		{"Memory and CPUs", memoryFlags(o)},
		{"Figures and limits", figureFlags(o)},
		{"Output", outputFlags(o)},
		{framesTitle, frameFlags(o)},
		{hidden, []flagRow{
			{names: "listen-fd", value: &o.asked.Peer.ListenFD, text: "`descriptor` of a listening socket"},
			{names: "test-ports", value: into(&o.asked.Peer.Ports, wire.ParsePorts), text: "TCP `ports` for -p 0"},
			{names: "F cpu-freq CPU-freq", text: "accepted and ignored"},
		}},
		{hidden, perftestFlags()},
	}
}

func connectionFlags(o *options) []flagRow {
	c := &o.asked
	return []flagRow{
		{names: "d ib-dev", value: &c.Link.Device,
			text: "RDMA `device` (default: the first with an active port; with -R, the one that has the address); " +
				"a,b: two rails, on TCP ports -p and -p + 1"},
		{names: "i ib-port", value: &c.Link.IBPort, text: "`port` of the device"},
		{names: "O dualport", tests: "bw", value: &c.Link.DualPort,
			text: "use ports 1 and 2 of the device, with -q queue pairs on each (bw)"},
		{names: "x gid-index", value: &c.Link.GIDIndex, only: [2]int64{0, 64},
			text: "GID `index` (default, and if negative: the best one; show_gids lists all)"},
		{names: "ipv6", value: &c.Link.GIDv6, text: "use the best GID that is an IPv6 address (both ends)"},
		{names: "c connection", value: into(&c.Transport, wire.ParseTransport), among: "RC UC UD XRC DC SRD RawEth",
			text: "connection `type`: RC, UC, UD, XRC, DC, SRD or RawEth (default: RC)"},
		{names: "g mcg", tests: "send", value: &c.Multicast, text: "send to a multicast group (-c UD, RoCE)"},
		{names: "M MGID", tests: "send", value: into(&c.Group, plan.ParseGroup),
			text: "`GID` of the multicast group for -g"},
		{names: "m mtu", value: &c.Link.MTU, text: "path MTU in `bytes` (default: the MTU of the port)"},
		{names: "u qp-timeout", value: &c.Link.QPTimeout, text: "ACK timeout of 4.096 us x 2^`n`; 0: no timeout"},
		{names: "S sl", value: &c.Link.SL, text: "service `level`"},
		{names: "tclass", value: &c.Link.TClass, text: "traffic `class`"},
		{names: "T tos", value: &c.Link.TClass, excludes: "tclass",
			text: "type of `service`, used as the traffic class (with -R and RawEth)"},
		{names: "flow-label", value: labels(&c.Link.FlowLabels),
			text: "flow `label`, or a list for the queue pairs in turn, such as 5,6,7"},
		{names: "pkey-index", value: &c.Link.PKeyIndex, text: "partition key `index`"},
		{names: "o outs", value: &c.Link.OutReads, check: orDefault,
			text: "outstanding `reads` and atomics (default: the maximum of the device)"},
	}
}

func exchangeFlags(o *options) []flagRow {
	c := &o.asked
	return []flagRow{
		{names: "p port", value: &c.Peer.Port,
			text: "TCP `port` of the parameter exchange; with -R and -z, rdma_cm port"},
		{names: "R rdma-cm", value: &c.Peer.RDMACM,
			text: "connect through rdma_cm, to an address of the server's device (both ends)"},
		{names: "z comm-rdma-cm", value: &c.Peer.CMExchange,
			text: "exchange parameters through rdma_cm, at an address of any device of the server, instead of TCP " +
				"(both ends)"},
		{names: "ipv6-addr", value: &c.Peer.IPv6, text: "connect to an IPv6 address of SERVER"},
		{names: "bind", value: &c.Peer.Bind, text: "`address` that the server listens on (default: all)"},
		{names: "bind-source-ip", value: &o.source, excludes: "bind",
			text: "source `address` of the client's connection (server: --bind)"},
		{names: "timeout", value: seconds(&c.Peer.Timeout),
			text: "fail if nothing is received from the peer, or no work completes, for this time; does not limit " +
				"how long a server waits for a client"},
		{names: "retry", value: seconds(&c.Peer.Patience),
			text: "time for which the client tries to reach the server"},
		{names: "retry-count", value: &c.Peer.RetryCount, only: [2]int64{0, 1<<31 - 1},
			needs: need{"a connection by rdma_cm", "rdma-cm"},
			text:  "`number` of times that the adapter repeats a lost packet, from 0 to 7 (with -R; default: 7)"},
		{names: "agent", value: &o.agentPort,
			text: "TCP `port` of rdmaperf serve on SERVER, which then runs the server"},
		{names: "token-file", value: &o.tokenFile, needs: need{flag: "agent"},
			text: "`file` with the token for --agent"},
		{names: "short-6-28", value: &c.Peer.ShortNeg, text: "client of a perftest 6.28 that was built without mlx5"},
	}
}

func loadFlags(o *options) []flagRow {
	c := &o.asked
	return []flagRow{
		{names: "s size", value: size(&c.Load.Size),
			text: "message size, such as 64, 4K or 1M (default: bw 64K, UD 1K, lat 2)"},
		{names: "a all", tests: "write read send", value: &c.Load.All,
			text: "all powers of two from 2 to 8M, or to -s (perftest always runs to 8M)"},
		{names: "sizes", tests: "write read send", value: sizes(&c.Load.SizeList), excludes: "size all",
			text: "message sizes, such as 64,4K,1M, or ranges such as 2:8M:x4 and 1K:4K:+512"},
		{names: "rounds", value: &c.Load.Rounds, check: positive,
			text: "measure all sizes so many `times`; rdmaperf compare takes the median; both ends must be rdmaperf"},
		{names: "n iters", value: &c.Load.Iters, check: atLeastFive, only: [2]int64{5, 1 << 32},
			text: "`messages` per queue pair and size (default: write bw 5000, others 1000)"},
		{names: "D duration", value: seconds(&c.Load.Duration), check: aboveZero,
			text: "run time, instead of a number of messages"},
		{names: "f margin", value: seconds(&c.Load.Margin), needs: need{"a duration", "duration"},
			text: "unmeasured time at the start and at the end of -D (default: a quarter of -D each)"},
		{names: "run-infinitely", tests: "bw", value: &c.Load.Infinite, excludes: "iters",
			text: "run until interrupted; print figures every 5 s, or every -D (bw)"},
		{names: "b bidirectional", tests: "bw", value: &c.Load.Bidirectional, text: "both ends send (bw)"},
		{names: "reversed", value: &c.Load.Reversed,
			text: "reverse the direction: the server sends, or reads (both ends)"},
		{names: "perform-warm-up", tests: "write read atomic bw", value: &c.Load.WarmUp,
			text: "transfer -t messages first, unmeasured (write, read, atomic bw)"},
		{names: "write-with-imm", tests: "write", value: &o.writeImm,
			text: "write with immediate data, which consumes receives of the peer (write)"},
		{names: "send-with-imm", tests: "send", value: &c.Queues.SendImm, text: "send with immediate data (send)"},
		{names: "A atomic-type", tests: "atomic", value: into(&c.Atomic, wire.ParseAtomicType),
			among: "FETCH_AND_ADD CMP_AND_SWAP",
			text:  "atomic `operation`: FETCH_AND_ADD or CMP_AND_SWAP (default: FETCH_AND_ADD)"},
		{names: "latency-gap", tests: "lat", value: duration(&c.Load.Gap, time.Microsecond, "microseconds", "5ms"),
			text: "unmeasured pause before each message (lat)"},
		{names: "rate-limit", tests: "bw", value: number(&c.Load.Rate.Limit), check: positive,
			text: "maximum send `rate`, in --rate-units (bw)"},
		{names: "rate-units", tests: "bw", value: into(&c.Load.Rate.Unit, plan.ParseRateUnit), among: "g M p",
			needs: need{"a rate", "rate-limit"},
			text:  "`unit` of --rate-limit: g (Gb/s), M (MiB/s) or p (messages/s) (default: g)"},
		{names: "burst-size", tests: "bw", value: &c.Load.Rate.Burst, check: orDefault,
			text: "`messages` that --rate-limit sends without a pause (default: -t)"},
		{names: "rate-limit-type", tests: "bw", value: o.rateType, among: "SW HW",
			text: "enforcement `type` of --rate-limit: SW (rdmaperf itself) or HW (packet pacing by the adapter) " +
				"(default: SW)"},
		{names: "typical-pkt-size", tests: "bw", value: &c.Load.Rate.Packet, check: orDefault,
			text: "packet size in `bytes` that --rate-limit-type HW assumes"},
		{names: "payload-file-path", tests: "write read send", value: into(&c.Payload, readPayload),
			text: "message content from this `file`: 0x03020100,0x07060504,..., lowest byte first"},
		{names: "verify", tests: "write read send", value: &c.Verify,
			text: "check the payload; both ends must be rdmaperf"},
	}
}

func queueFlags(o *options) []flagRow {
	c := &o.asked
	return []flagRow{
		{names: "q qp", value: &c.Queues.QPs, text: "number of `queue pairs` (bw)"},
		{names: "threads", value: &c.Queues.Threads, check: positive,
			text: "`number` of threads; each has an equal share of the queue pairs, and its own CQ"},
		{names: "t tx-depth", value: &c.Queues.TxDepth, check: positive,
			text: "`depth` of the send queue (default: bw 128, lat 1)"},
		{names: "r rx-depth", value: &c.Queues.RxDepth, check: positive,
			text: "`depth` of the receive queue (default: send 512)"},
		{names: "use-srq", tests: "write send", value: &c.Queues.UseSRQ,
			text: "one shared receive queue of depth -r for all queue pairs (send; XRC and DC always have one)"},
		{names: "l post-list", value: &c.Queues.PostList, text: "messages per post call: `n` (bw)"},
		{names: "recv-post-list", value: &c.Queues.RecvList, check: orDefault,
			text: "receives per post call: `n` (send bw)"},
		{names: "Q cq-mod", value: &c.Queues.CQMod, check: positive, only: [2]int64{1, 1024},
			text: "messages per completion: `n` (default: 100; 1 above 8K)"},
		{names: "cqe-poll", value: &c.Queues.PollMax, check: positive, only: [2]int64{1, 1<<16 - 1},
			text: "completions per poll: at most `n`, up to 16 (bw)"},
		{names: "I inline-size", tests: "write send", value: &c.Queues.Inline, only: [2]int64{0, 1024},
			text: "largest message sent inline, in `bytes` (default: lat 220 or 236 if supported, bw 0)"},
		{names: "e events", value: &c.Queues.Events,
			text: "sleep until completions arrive, instead of polling (not write lat)"},
		{names: "X vector", value: &c.Queues.Vector, text: "completion `vector` for -e"},
	}
}

func memoryFlags(o *options) []flagRow {
	m := &o.asked.Memory
	return []flagRow{
		{names: "use-hugepages", value: &o.hugePages, text: "allocate message buffers from huge pages"},
		{names: "mmap", value: &m.File, check: filled,
			text: "map message buffers from this `file`; received messages overwrite it"},
		{names: "mmap-offset", value: &m.Offset, text: "`byte` of the file at which the buffers begin"},
		{names: "use-dm", value: &o.deviceMemory, text: "allocate message buffers in device memory"},
		{names: "use-cuda", value: &m.GPU,
			text: "allocate message buffers on GPU `n`, from 0, through nvidia_peermem"},
		{names: "use-cuda-bus-id", value: &m.BusID, check: filled,
			text: "the same, by PCI `address` of the GPU, such as 0000:3b:00.0"},
		{names: "use-cuda-dmabuf", value: &m.Dmabuf, text: "register GPU memory as a dma-buf, without nvidia_peermem"},
		{names: "use-data-direct", value: &m.DataDirect,
			text: "register the dma-buf with the data-direct function of mlx5"},
		{names: "odp", value: &m.OnDemand, text: "on-demand paging, instead of pinned memory"},
		{names: "odp-implicit", value: &m.Implicit,
			text: "on-demand paging, with one memory region for the whole address space"},
		{names: "use-null-mr", value: &m.Null,
			text: "null MR for what this end posts: it sends zeros, and discards what it reads (write bw, read)"},
		{names: "disable-pcie-relaxed", value: &m.Ordered,
			text: "disable relaxed ordering on PCIe (default: enabled, except in write lat; perftest does the same)"},
		{names: "mr-per-qp", value: &o.asked.Queues.MRPerQP,
			text: "separate memory and memory region for each queue pair"},
		{names: "cpus pin-cores", value: cpus(&o.asked.Place.CPUs),
			text: "`CPUs` to run on, such as 2-5,8 (default: those of the NUMA node of the device)"},
		{names: "numa-node", value: &o.asked.Place.Node,
			text: "NUMA `node` for CPUs and memory (default: the node of the device)"},
		{names: "no-pin disable-numa", value: &o.asked.Place.NoPin, text: "let the kernel choose CPUs and memory node"},
	}
}

func figureFlags(o *options) []flagRow {
	c, l := &o.asked, &o.given
	return []flagRow{
		{names: "lat-def", tests: "lat", value: into(&c.Report.LatencyDef, latencyDef), among: "perftest cqe",
			text: "latency `definition`: perftest (half of the round trip; for read and atomic, all of it) or " +
				"cqe (post to completion) (default: perftest)"},
		{names: "report-interval", tests: "bw", value: seconds(&c.Load.Interval),
			text: "interval of intermediate figures (bw)"},
		{names: "report-both", tests: "bw", value: &c.Report.ReportBoth,
			text: "show each direction of -b separately, also with -D"},
		{names: "report-per-port", tests: "bw", value: &c.Report.PerPort,
			text: "show each port of -O separately (with -D)"},
		{names: "N no-peak noPeak", value: &c.Report.NoPeak, text: "do not measure the peak (bw)"},
		{names: "hw-timestamps", tests: "bw", value: &c.Report.HWTimestamps,
			text: "show the times between completions by the clock of the adapter (bw)"},
		{names: "counters", value: &c.Report.Counters,
			text: "show how much each port counter rose, and mark counters of errors and congestion"},
		{names: "W report-counters", value: &c.Report.CounterNames, text: "show only these port counters: `a,b`"},
		{names: "cpu-util", value: &c.Report.CPUUtil, text: "show the CPU use of this end"},
		{names: "w limit-bw", tests: "bw", value: limit(&l.bandwidth), check: limiting,
			text: "minimum bandwidth of one size at least, in the `unit` of the table; exit status 3 below it"},
		{names: "y limit-msgrate", tests: "bw", value: limit(&l.rate), check: limiting,
			text: "minimum message rate of one size at least, in `million` messages/s; exit status 3 below it"},
		{names: "min-bw", tests: "bw", value: sizedLimit(&l.each), check: limiting,
			text: "minimum bandwidth of each size, in `Gb/s`, or of one size as 180@8M; exit status 3 below it"},
		{names: "max-lat", tests: "lat", value: limit(&l.median), check: limiting,
			text: "maximum median latency, in `microseconds`; exit status 3 above it"},
		{names: "max-p99", tests: "lat", value: limit(&l.p99), check: limiting,
			text: "maximum 99th percentile of latency, in `microseconds`; exit status 3 above it"},
	}
}

func outputFlags(o *options) []flagRow {
	return []flagRow{
		{names: "report-gbits", value: &o.asked.Report.Gbits, text: "bandwidth in Gb/s instead of MiB/s (both ends)"},
		{names: "output", value: &o.only, among: "bandwidth message_rate latency",
			text: "print one `figure` only: bandwidth, message_rate or latency (the mean)"},
		{names: "json", value: &o.json, text: "one JSON object with all results instead of a table"},
		{names: "csv", value: &o.csv, excludes: "json", text: "comma-separated values instead of a table"},
		{names: "json-file", value: &o.ownFile, check: filled, text: "also write the object of --json to this `file`"},
		{names: "out-json", value: &o.outJSON, text: "also write perftest's JSON object to a file"},
		{names: "out-json-file", value: &o.jsonFile,
			text: "`file` for perftest's JSON object (default: perftest_out.json, with --out-json)"},
		{names: "H report-histogram report-histogrm", tests: "lat", value: &o.histogram,
			text: "show the latency histogram (lat)"},
		{names: "U report-unsorted", tests: "lat", value: &o.asked.Report.Unsorted,
			text: "show all samples, in order (lat)"},
		{names: "V version", text: "print the version"},
		{names: "h help", text: "print this help"},
	}
}

func frameFlags(o *options) []flagRow {
	fr := &o.asked.Frames
	return []flagRow{
		{names: "P client", tests: "send", value: &fr.Connects, text: "this end is the client; SERVER is not needed"},
		{names: "Z server", tests: "send", excludes: "client", text: "this end is the server (default)"},
		{names: "B source-mac local-mac", tests: "send", value: mac(&fr.Own),
			text: "Ethernet `address` of this end"},
		{names: "E dest-mac remote-mac", tests: "send", value: mac(&fr.Peer),
			text: "Ethernet `address` of the peer"},
		{names: "Y ethertype", tests: "send", value: &fr.EtherType, check: positive,
			text: "Ethernet `type` (default: that of IPv4 with -J, otherwise the length)"},
		{names: "J dest-ip", tests: "send", value: ip(&fr.Server),
			text: "IP `address` of the server; adds an IP header"},
		{names: "j source-ip", tests: "send", value: ip(&fr.Client), text: "IP `address` of the client"},
		{names: "K dest-port", tests: "send", value: &fr.ServerPort,
			text: "UDP `port` of the server; adds a UDP header"},
		{names: "k source-port", tests: "send", value: &fr.ClientPort, text: "UDP `port` of the client"},
		{names: "tcp", tests: "send", value: &fr.TCP, text: "TCP headers instead of UDP"},
		{names: "raw-ipv6", tests: "send", value: &o.rawIPv6, text: "check that -J and -j are IPv6 addresses"},
		{names: "L hop-limit", tests: "send", value: &fr.HopLimit, check: orDefault,
			text: "hop `limit`, or time to live (default: 64)"},
		{names: "vlan-en", tests: "send", value: &fr.VLAN, text: "VLAN tag, with VLAN 1"},
		{names: "vlan-pcp", tests: "send", value: &o.priority, check: priority,
			text: "`priority` in the VLAN tag, which it adds; 8: all in turn"},
		{names: "flows", tests: "send bw", value: &fr.Flows, check: positive,
			text: "`n` flows in turn, with port numbers from -K and -k upward (bw)"},
		{names: "flows-burst", tests: "send bw", value: &fr.Burst, check: positive,
			text: "`n` frames of a flow before the next flow"},
		{names: "promiscuous", tests: "send", value: &fr.Promiscuous,
			text: "receive all frames that no other queue pair receives"},
		{names: "sniffer", tests: "send", value: &fr.Sniffer, text: "receive a copy of all frames"},
		{names: "local-ip", tests: "send", value: ip(&o.given.local), text: "IP `address` of this end"},
		{names: "remote-ip", tests: "send", value: ip(&o.given.remote), text: "IP `address` of the peer"},
		{names: "local-port", tests: "send", value: &o.given.localPort, text: "UDP `port` of this end"},
		{names: "remote-port", tests: "send", value: &o.given.remotePort, text: "UDP `port` of the peer"},
		{names: "raw-mcast", tests: "send bw", value: &o.rawMulticast,
			text: "send to the multicast address that belongs to -J; -E is not needed"},
	}
}
