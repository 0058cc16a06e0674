package main

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/payload"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Formats of what is printed.
const (
	formatText = ""
	formatJSON = "json"
	formatCSV  = "csv"
)

type options struct {
	asked     plan.Options
	plan      plan.Plan   // what was asked for, checked and completed
	rails     []plan.Plan // one for each of several devices and servers
	format    string
	only      string // the one figure that the text is
	jsonFile  string // file that also gets the JSON object
	limits    measure.Limits
	histogram bool
	agentPort int          // of perf serve, which is asked for the server; 0: the server is there
	tokenFile string       // of that agent
	named     func() error // reads what flags give by name
}

var (
	errHelp    = errors.New("help")
	errVersion = errors.New("version")
)

// flagSet declares the flags: perftest's letters and names where it has them.
// Names may be written with - or _.
func flagSet(o *options) *pflag.FlagSet {
	c := &o.asked
	f := pflag.NewFlagSet("perf", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.SetNormalizeFunc(normal)
	c.GIDIndex, c.Inline, c.Margin, c.Node = plan.Auto, plan.Auto, plan.Auto, plan.Auto
	c.Timeout, c.Patience = 30*time.Second, 3*time.Second

	f.StringVarP(&c.Device, "ib-dev", "d", "",
		"RDMA `device` (default: the first with an active port; with -R, the one that has the address); "+
			"a,b: two rails, on TCP ports -p and -p + 1")
	f.Uint8VarP(&c.IBPort, "ib-port", "i", 1, "`port` of the device")
	f.BoolVarP(&c.DualPort, "dualport", "O", false,
		"use ports 1 and 2 of the device, with -q queue pairs on each (bw)")
	f.IntVarP(&c.GIDIndex, "gid-index", "x", plan.Auto,
		"GID `index` (default, and if negative: the best one; show_gids lists all)")
	f.IntVarP(&c.Port, "port", "p", wire.DefaultPort,
		"TCP `port` of the parameter exchange; with -R and -z, rdma_cm port")
	f.BoolVarP(&c.RDMACM, "rdma-cm", "R", false,
		"connect through rdma_cm, to an address of the server's device (both ends)")
	f.BoolVarP(&c.CMExchange, "comm-rdma-cm", "z", false,
		"exchange parameters through rdma_cm, at an address of any device of the server, instead of TCP (both ends)")
	f.BoolVar(&c.GIDv6, "ipv6", false, "use the best GID that is an IPv6 address (both ends)")
	f.BoolVar(&c.IPv6, "ipv6-addr", false, "connect to an IPv6 address of SERVER")
	f.StringVar(&c.Bind, "bind", "", "`address` that the server listens on (default: all)")

	source := f.String("bind-source-ip", "", "source `address` of the client's connection (server: --bind)")

	f.VarP((*size)(&c.Size), "size", "s", "message size, such as 64, 4K or 1M (default: bw 64K, UD 1K, lat 2)")
	f.BoolVarP(&c.All, "all", "a", false,
		"all powers of two from 2 to 8M, or to -s (perftest always runs to 8M)")
	f.Uint64VarP(&c.Iters, "iters", "n", 0, "`messages` per queue pair and size (default: write bw 5000, others 1000)")
	f.VarP((*seconds)(&c.Duration), "duration", "D", "run time, instead of a number of messages")
	f.VarP((*seconds)(&c.Margin), "margin", "f",
		"unmeasured time at the start and at the end of -D (default: a quarter of -D each)")
	f.BoolVar(&c.Infinite, "run-infinitely", false,
		"run until interrupted; print figures every 5 s, or every -D (bw)")
	f.Var((*seconds)(&c.Interval), "report-interval", "interval of intermediate figures (bw)")
	f.Float64Var(&c.Rate.Limit, "rate-limit", 0, "maximum send `rate`, in --rate-units (bw)")
	rateUnit := f.String("rate-units", "g", "`unit` of --rate-limit: g (Gb/s), M (MiB/s) or p (messages/s)")
	f.IntVar(&c.Rate.Burst, "burst-size", 0, "`messages` that --rate-limit sends without a pause (default: -t)")
	rateType := f.String("rate-limit-type", "SW",
		"enforcement `type` of --rate-limit: SW (perf itself) or HW (packet pacing by the adapter)")
	f.IntVar(&c.Rate.Packet, "typical-pkt-size", 0, "packet size in `bytes` that --rate-limit-type HW assumes")
	f.Var((*sizes)(&c.SizeList), "sizes", "message sizes, such as 64,4K,1M, or ranges such as 2:8M:x4 and 1K:4K:+512")
	f.IntVar(&c.RecvList, "recv-post-list", 0, "receives per post call: `n` (send bw)")
	f.IntVar(&c.PollMax, "cqe-poll", 0, "completions per poll: at most `n`, up to 16 (bw)")
	f.BoolVarP(&c.Bidirectional, "bidirectional", "b", false, "both ends send (bw)")
	f.BoolVar(&c.Reversed, "reversed", false,
		"reverse the direction: the server sends, or reads (both ends)")
	f.BoolVar(&c.ReportBoth, "report-both", false, "show each direction of -b separately, also with -D")
	f.BoolVar(&c.PerPort, "report-per-port", false, "show each port of -O separately (with -D)")
	f.BoolVar(&c.WarmUp, "perform-warm-up", false, "transfer -t messages first, unmeasured (write, read, atomic bw)")
	f.IntVarP(&c.QPs, "qp", "q", 1, "number of `queue pairs` (bw)")
	f.IntVar(&c.Threads, "threads", 1,
		"`number` of threads; each has an equal share of the queue pairs, and its own CQ")
	f.BoolVar(&c.MRPerQP, "mr-per-qp", false, "separate memory and memory region for each queue pair")
	f.IntVarP(&c.TxDepth, "tx-depth", "t", 0, "`depth` of the send queue (default: bw 128, lat 1)")
	f.IntVarP(&c.RxDepth, "rx-depth", "r", 0, "`depth` of the receive queue (default: send 512)")
	f.IntVarP(&c.PostList, "post-list", "l", 1, "messages per post call: `n` (bw)")
	f.IntVarP(&c.CQMod, "cq-mod", "Q", 0, "messages per completion: `n` (default: 100; 1 above 8K)")
	f.IntVarP(&c.Inline, "inline-size", "I", plan.Auto,
		"largest message sent inline, in `bytes` (default: lat 220 or 236 if supported, bw 0)")
	f.IntVarP(&c.OutReads, "outs", "o", 0, "outstanding `reads` and atomics (default: the maximum of the device)")
	f.BoolVarP(&c.Events, "events", "e", false, "sleep until completions arrive, instead of polling (not write lat)")

	f.IntVarP(&c.Vector, "vector", "X", 0, "completion `vector` for -e")
	f.IntVarP(&c.MTU, "mtu", "m", 0, "path MTU in `bytes` (default: the MTU of the port)")
	f.Uint8VarP(&c.QPTimeout, "qp-timeout", "u", plan.DefaultQPTimeout,
		"ACK timeout of 4.096 us x 2^`n`; 0: no timeout")
	f.Uint8VarP(&c.SL, "sl", "S", 0, "service `level`")
	f.Uint8Var(&c.TClass, "tclass", 0, "traffic `class`")
	f.Uint8P("tos", "T", 0, "type of `service`, used as the traffic class (with -R and RawEth)")
	f.Var((*labels)(&c.FlowLabels), "flow-label", "flow `label`, or a list for the queue pairs in turn, such as 5,6,7")
	f.Uint16Var(&c.PKeyIndex, "pkey-index", 0, "partition key `index`")
	conn := f.StringP("connection", "c", "RC", "connection `type`: RC, UC, UD, XRC, DC, SRD or RawEth")
	f.BoolVarP(&c.Multicast, "mcg", "g", false, "send to a multicast group (-c UD, RoCE)")
	group := f.StringP("MGID", "M", "", "`GID` of the multicast group for -g")
	fr := &c.Frames
	f.BoolVarP(&fr.Connects, "client", "P", false, "RawEth: this end is the client; SERVER is not needed")
	f.BoolP("server", "Z", false, "RawEth: this end is the server (default)")
	f.VarP((*mac)(&fr.Own), "source-mac", "B", "RawEth: Ethernet `address` of this end")
	f.VarP((*mac)(&fr.Peer), "dest-mac", "E", "RawEth: Ethernet `address` of the peer")
	f.Uint16VarP(&fr.EtherType, "ethertype", "Y", 0,
		"RawEth: Ethernet `type` (default: that of IPv4 with -J, otherwise the length)")
	f.VarP((*ip)(&fr.Server), "dest-ip", "J", "RawEth: IP `address` of the server; adds an IP header")
	f.VarP((*ip)(&fr.Client), "source-ip", "j", "RawEth: IP `address` of the client")
	f.Uint16VarP(&fr.ServerPort, "dest-port", "K", 0, "RawEth: UDP `port` of the server; adds a UDP header")
	f.Uint16VarP(&fr.ClientPort, "source-port", "k", 0, "RawEth: UDP `port` of the client")
	f.BoolVar(&fr.TCP, "tcp", false, "RawEth: TCP headers instead of UDP")
	rawIPv6 := f.Bool("raw-ipv6", false, "RawEth: check that -J and -j are IPv6 addresses")
	f.Uint8VarP(&fr.HopLimit, "hop-limit", "L", 0, "RawEth: hop `limit`, or time to live (default: 64)")
	f.BoolVar(&fr.VLAN, "vlan-en", false, "RawEth: VLAN tag, with VLAN 1")
	pcp := f.Uint8("vlan-pcp", 1, "RawEth: `priority` in the VLAN tag; 8: all in turn")
	f.IntVar(&fr.Flows, "flows", 0, "RawEth: `n` flows in turn, with port numbers from -K and -k upward (bw)")
	f.IntVar(&fr.Burst, "flows-burst", 0, "RawEth: `n` frames of a flow before the next flow")
	f.BoolVar(&fr.Promiscuous, "promiscuous", false, "RawEth: receive all frames that no other queue pair receives")
	f.BoolVar(&fr.Sniffer, "sniffer", false, "RawEth: receive a copy of all frames")
	f.BoolVar(&c.SendImm, "send-with-imm", false, "send with immediate data (send)")
	f.BoolVar(&c.UseSRQ, "use-srq", false,
		"one shared receive queue of depth -r for all queue pairs (send; XRC and DC always have one)")

	hugePages := f.Bool("use-hugepages", false, "allocate message buffers from huge pages")
	f.StringVar(&c.Memory.File, "mmap", "", "map message buffers from this `file`; received messages overwrite it")
	f.Int64Var(&c.Memory.Offset, "mmap-offset", 0, "`byte` of the file at which the buffers begin")
	payloadFile := f.String("payload-file-path", "",
		"message content from this `file`: 0x03020100,0x07060504,…, lowest byte first")
	useDM := f.Bool("use-dm", false, "allocate message buffers in device memory")
	f.IntVar(&c.Memory.GPU, "use-cuda", 0, "allocate message buffers on GPU `n`, from 0, through nvidia_peermem")
	f.StringVar(&c.Memory.BusID, "use-cuda-bus-id", "", "the same, by PCI `address` of the GPU, such as 0000:3b:00.0")
	f.BoolVar(&c.Memory.Dmabuf, "use-cuda-dmabuf", false, "register GPU memory as a dma-buf, without nvidia_peermem")
	f.BoolVar(&c.Memory.DataDirect, "use-data-direct", false,
		"register the dma-buf with the data-direct function of mlx5")
	f.BoolVar(&c.Memory.OnDemand, "odp", false, "on-demand paging, instead of pinned memory")
	f.BoolVar(&c.Memory.Implicit, "odp-implicit", false,
		"on-demand paging, with one memory region for the whole address space")
	f.BoolVar(&c.Memory.Null, "use-null-mr", false,
		"null MR for what this end posts: it sends zeros, and discards what it reads (write bw, read)")
	f.BoolVar(&c.Memory.Ordered, "disable-pcie-relaxed", false,
		"disable relaxed ordering on PCIe (default: enabled, except in write lat; perftest does the same)")
	f.Var((*cpus)(&c.CPUs), "cpus", "`CPUs` to run on, such as 2-5,8 (default: those of the NUMA node of the device)")
	f.IntVar(&c.Node, "numa-node", plan.Auto, "NUMA `node` for CPUs and memory (default: the node of the device)")
	f.BoolVar(&c.NoPin, "no-pin", false, "let the kernel choose CPUs and memory node")

	atomic := f.StringP("atomic-type", "A", "FETCH_AND_ADD", "atomic `operation`: FETCH_AND_ADD or CMP_AND_SWAP")
	lat := f.String("lat-def", "perftest",
		"latency `definition`: perftest (half of the round trip; for read and atomic, all of it) or "+
			"cqe (post to completion)")
	f.Var((*microseconds)(&c.Gap), "latency-gap", "unmeasured pause before each message (lat)")
	f.BoolVar(&c.HWTimestamps, "hw-timestamps", false,
		"show the times between completions by the clock of the adapter (bw)")
	f.BoolVarP(&c.NoPeak, "no-peak", "N", false, "do not measure the peak (bw)")
	f.BoolVar(&c.Counters, "counters", false,
		"show how much each port counter rose, and mark counters of errors and congestion")
	f.StringSliceVarP(&c.CounterNames, "report-counters", "W", nil, "show only these port counters: `a,b`")
	f.BoolVar(&c.CPUUtil, "cpu-util", false, "show the CPU use of this end")
	f.BoolVar(&c.Gbits, "report-gbits", false, "bandwidth in Gb/s instead of MiB/s (both ends)")
	f.BoolVar(&c.Verify, "verify", false, "check the payload; both ends must be perf")
	f.Bool("write-with-imm", false, "write with immediate data, which consumes receives of the peer (write)")
	f.StringVar(&o.only, "output", "", "print one `figure` only: bandwidth, message_rate or latency (the mean)")
	asJSON := f.Bool("json", false, "one JSON object with all results instead of a table")
	asCSV := f.Bool("csv", false, "comma-separated values instead of a table")
	outJSON := f.Bool("out-json", false, "also write the JSON object to a file")
	f.StringVar(&o.jsonFile, "out-json-file", "",
		"`file` for the JSON object (default: perftest_out.json, with --out-json)")
	limitBW := f.Float64P("limit-bw", "w", 0, "minimum bandwidth, in the `unit` of the table; exit status 3 below it")
	limitRate := f.Float64P("limit-msgrate", "y", 0,
		"minimum message rate, in `million` messages/s; exit status 3 below it")
	minBW := f.Float64("min-bw", 0, "minimum bandwidth, in `Gb/s`; exit status 3 below it")
	maxLat := f.Float64("max-lat", 0, "maximum median latency, in `microseconds`; exit status 3 above it")
	maxP99 := f.Float64("max-p99", 0, "maximum 99th percentile of latency, in `microseconds`; exit status 3 above it")
	f.BoolVarP(&o.histogram, "report-histogram", "H", false, "show the latency histogram (lat)")
	f.BoolVarP(&c.Unsorted, "report-unsorted", "U", false, "show all samples, in order (lat)")
	f.Var((*seconds)(&c.Timeout), "timeout",
		"time without a message of the exchange, or without a completion, after which the run fails; "+
			"not for a server that waits for a client, or for a client to finish")
	f.Var((*seconds)(&c.Patience), "retry", "time for which the client tries to reach the server")
	f.IntVar(&o.agentPort, "agent", 0, "TCP `port` of perf serve on SERVER, which then runs the server")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with the token for --agent")
	f.BoolVar(&c.ShortNeg, "short-6-28", false, "client of a perftest 6.28 that was built without mlx5")
	f.IntVar(&c.ListenFD, "listen-fd", 0, "`descriptor` of a listening socket")
	f.Lookup("listen-fd").Hidden = true
	f.BoolP("cpu-freq", "F", false, "accepted and ignored")
	f.Lookup("cpu-freq").Hidden = true
	for _, n := range []string{"gid-index", "margin", "inline-size", "duration", "limit-bw", "limit-msgrate", "min-bw",
		"max-lat", "max-p99", "report-interval", "sizes", "source-mac", "dest-mac", "dest-ip", "source-ip", "cpus",
		"use-cuda", "numa-node", "latency-gap", "flow-label"} {
		f.Lookup(n).DefValue = "0" // the text has the default
	}
	f.Lookup("report-counters").DefValue = "[]"
	f.BoolP("version", "V", false, "print the version")
	f.BoolP("help", "h", false, "print this help")

	o.named = func() (err error) {
		if c.Transport, err = wire.ParseTransport(*conn); err != nil {
			return err
		}
		if c.Multicast && !f.Changed("connection") {
			c.Transport = wire.UD // as perftest
		}
		if *group != "" {
			if c.Group, err = plan.ParseGroup(*group); err != nil {
				return err
			}
		}
		if c.Atomic, err = wire.ParseAtomicType(*atomic); err != nil {
			return err
		}
		for i, n := range c.CounterNames {
			c.CounterNames[i] = path.Base(n) // perftest's have their folder in front
		}
		if c.Rate.Unit, err = plan.ParseRateUnit(*rateUnit); err != nil {
			return err
		}
		switch {
		case fr.VLAN:
			fr.Priority = *pcp
		case f.Changed("vlan-pcp"):
			return errors.New("priority (--vlan-pcp): needs a VLAN tag (--vlan-en)")
		}
		if *rawIPv6 && !fr.IPv6() {
			return errors.New("--raw-ipv6: needs IPv6 addresses (-J, -j)")
		}
		if err := o.place(f, *hugePages, *useDM); err != nil {
			return err
		}
		if f.Changed("payload-file-path") {
			if c.Payload, err = payload.Read(*payloadFile); err != nil {
				return fmt.Errorf("payload (--payload-file-path): %w", err)
			}
		}
		switch *rateType {
		case "SW":
		case "HW", "PP":
			c.Rate.Hardware = true
		default:
			return fmt.Errorf("type of rate (--rate-limit-type) %q; allowed: SW, HW and PP (as HW)", *rateType)
		}
		if *source != "" && c.Bind != "" {
			return errors.New("give --bind or --bind-source-ip, not both")
		}
		c.Bind = cmp.Or(c.Bind, *source)
		switch *lat {
		case "perftest":
			c.LatencyDef = plan.RoundTrip
		case "cqe":
			c.LatencyDef = plan.ToCompletion
		default:
			return fmt.Errorf("latency definition (--lat-def) %q; allowed: perftest and cqe", *lat)
		}
		switch {
		case *asJSON && *asCSV:
			return errors.New("give --json or --csv, not both")
		case *asJSON:
			o.format = formatJSON
		case *asCSV:
			o.format = formatCSV
		}
		if *outJSON && o.jsonFile == "" {
			o.jsonFile = "perftest_out.json"
		}
		for name, v := range map[string]float64{"limit-bw": *limitBW, "limit-msgrate": *limitRate, "min-bw": *minBW,
			"max-lat": *maxLat, "max-p99": *maxP99} {
			if f.Changed(name) && !(v > 0 && v < 1e12) {
				return fmt.Errorf("--%s %v is not a limit: give a number above 0", name, v)
			}
		}
		o.limits = measure.Limits{MinBits: max(*minBW*1e9, *limitBW*measure.Units(c.Gbits)), MinRate: *limitRate * 1e6,
			MaxP50Ns: *maxLat * 1e3, MaxP99Ns: *maxP99 * 1e3}
		return nil
	}
	return f
}

// checkOnly returns why --output does not fit the other options, or nil.
func (o *options) checkOnly() error {
	bw := o.asked.Metric == wire.Bandwidth
	switch {
	case o.only == "":
		return nil
	case o.format != formatText:
		return errors.New("--output: not with --json or --csv")
	case bw && o.only != report.OnlyBandwidth && o.only != report.OnlyRate, !bw && o.only != report.OnlyLatency:
		return fmt.Errorf("--output %q; allowed: %s and %s of bw, %s of lat", o.only, report.OnlyBandwidth,
			report.OnlyRate, report.OnlyLatency)
	case o.histogram || o.asked.Unsorted || o.asked.HWTimestamps:
		return errors.New("--output: not with a histogram (-H), samples (-U) or --hw-timestamps")
	}
	return nil
}

// parse reads the command line and makes a plan of it.
func parse(args []string) (*options, error) {
	o := &options{}
	f := flagSet(o)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil, errHelp
		}
		return nil, unknown(err, f)
	}
	if h, _ := f.GetBool("help"); h {
		return nil, errHelp
	}
	if v, _ := f.GetBool("version"); v {
		return nil, errVersion
	}
	if err := o.named(); err != nil {
		return nil, err
	}
	a := f.Args()
	if len(a) == 1 {
		if _, err := wire.ParseVerb(a[0]); err != nil {
			return nil, fmt.Errorf("unknown command %.100q; commands: write, read, send, atomic, stream, message, "+
				"compare, report, doctor, selftest, serve and mesh", a[0])
		}
	}
	if len(a) < 2 {
		return nil, errors.New("no command; usage: perf {write|read|send|atomic} {bw|lat} [options] [SERVER]")
	}
	var err error
	if o.asked.Verb, err = wire.ParseVerb(a[0]); err != nil {
		return nil, err
	}
	if imm, _ := f.GetBool("write-with-imm"); imm && o.asked.Verb == wire.Write {
		o.asked.Verb = wire.WriteImm
	} else if imm && o.asked.Verb != wire.WriteImm {
		return nil, fmt.Errorf("--write-with-imm: only for write, not for %v", o.asked.Verb)
	}
	if o.asked.Metric, err = wire.ParseMetric(a[1]); err != nil {
		return nil, err
	}
	switch len(a) {
	case 2:
	case 3:
		if o.asked.Host, err = serverName(a[2]); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%d arguments too many: %s", len(a)-3, strings.Join(a[3:], " "))
	}
	if err := together(f); err != nil {
		return nil, err
	}
	if f.Changed("tos") {
		o.asked.TClass, _ = f.GetUint8("tos")
	}
	if f.Changed("iters") && o.asked.Iters == 0 {
		return nil, errors.New("iterations (-n) 0 < 5")
	}
	for _, n := range []string{"threads", "tx-depth", "rx-depth", "cq-mod", "outs", "rate-limit", "burst-size",
		"typical-pkt-size", "recv-post-list", "cqe-poll", "hop-limit", "flows", "flows-burst"} {
		if fl := f.Lookup(n); fl.Changed && fl.Value.String() == "0" {
			return nil, fmt.Errorf("--%s%s 0 < 1", n, short(fl))
		}
	}
	if l := o.limits; o.asked.Metric == wire.Latency && (l.MinBits > 0 || l.MinRate > 0) {
		return nil, errors.New("limits of bandwidth and rate (-w, -y, --min-bw): only for bandwidth tests")
	} else if o.asked.Metric == wire.Bandwidth && (l.MaxP50Ns > 0 || l.MaxP99Ns > 0) {
		return nil, errors.New("limits of latency (--max-lat, --max-p99): only for latency tests")
	} else if (l.MaxP50Ns > 0 || l.MaxP99Ns > 0) && o.asked.Verb.Fetches() &&
		(o.asked.Host == "") != o.asked.Reversed {
		return nil, fmt.Errorf("limits (--max-lat, --max-p99): this end of %v lat measures nothing, "+
			"give them to the client (with --reversed to the server)", o.asked.Verb)
	}
	byCM := o.asked.RDMACM || o.asked.CMExchange
	if f.Changed("agent") && (o.agentPort < 1 || o.agentPort > 65535 || o.asked.Host == "" || byCM) {
		return nil, fmt.Errorf("--agent %d: needs a client, a TCP port from 1 to 65535, and neither -R nor -z",
			o.agentPort)
	} else if f.Changed("token-file") && !f.Changed("agent") {
		return nil, errors.New("--token-file needs --agent")
	}
	if o.format == formatCSV && (o.histogram || o.asked.Unsorted) {
		return nil, errors.New("histogram and samples (-H, -U): not with --csv; use --json")
	}
	if o.format == formatCSV && o.asked.HWTimestamps {
		return nil, errors.New("timestamps of the adapter (--hw-timestamps): not with --csv; use --json")
	}
	if err := o.checkOnly(); err != nil {
		return nil, err
	}
	if o.histogram && o.asked.Metric != wire.Latency {
		return nil, errors.New("histogram (-H): only for latency tests")
	}
	if f.Changed("margin") && !f.Changed("duration") {
		return nil, errors.New("margin (-f) needs a duration (-D)")
	}
	o.asked.GIDIndex = max(o.asked.GIDIndex, plan.Auto) // any negative one
	if o.rails, err = plan.Rails(o.asked); err != nil {
		return o, err
	}
	o.plan = o.rails[0]
	if len(o.rails) > 1 && f.Changed("agent") {
		return nil, errors.New("--agent: serves one connection; give one device (-d) and one server")
	}
	return o, nil
}

// usage is the help text.
func usage() string {
	return `perf measures the bandwidth and latency of RDMA between two hosts. The other end may also be
perftest: ib_write_bw, ib_write_lat, ib_read_bw, ib_read_lat, ib_send_bw, ib_send_lat,
ib_atomic_bw or ib_atomic_lat, as server or as client; with -c RawEth, raw_ethernet_bw or
raw_ethernet_lat.

  perf {write|read|send|atomic} {bw|lat} [options]            server: serves one client
  perf {write|read|send|atomic} {bw|lat} [options] SERVER     client; A,B: several servers at once

Other commands, each with its own --help:

  perf {stream|message} {bw|lat}    bandwidth and latency of package rdma
  perf compare                      difference between two saved runs
  perf report                       charts of saved runs, as one HTML file
  perf doctor                       problems of this host, and whether it matches another host
  perf selftest                     what only an adapter can show, for a first hour with one
  perf serve                        servers for many clients
  perf mesh                         all pairs of many hosts

Give both ends the same command and the same -s -a -n -D -q -b -R -c -A, and -m -p if given.

The two ends exchange their parameters over TCP. With -R they connect and exchange through
rdma_cm, and use no TCP; with -z only the exchange uses rdma_cm. Give perftest the same
option, and for IPv6 addresses also --ipv6-addr, which perftest has since 6.16.

` + flagSet(&options{}).FlagUsages() + `
Exit status: 0 success, 1 failure, 2 wrong usage, 3 a limit (-w, -y, --min-bw, --max-lat,
--max-p99) was missed.
`
}
