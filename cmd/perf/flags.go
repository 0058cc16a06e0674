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
	jsonFile  string // where the JSON object goes, too
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
		"RDMA `device`; the first one with an active port if not given, with -R that of the address; "+
			"a,b are two rails, with TCP ports -p and the next")
	f.Uint8VarP(&c.IBPort, "ib-port", "i", 1, "`port` of the device")
	f.BoolVarP(&c.DualPort, "dualport", "O", false,
		"-q queue pairs on port 1 of the device, and as many on port 2 (bw)")
	f.IntVarP(&c.GIDIndex, "gid-index", "x", plan.Auto,
		"`index` of the GID; the best one if negative (show_gids lists them)")
	f.IntVarP(&c.Port, "port", "p", wire.DefaultPort, "TCP `port` of the exchange; with -R rdma_cm's")
	f.BoolVarP(&c.RDMACM, "rdma-cm", "R", false,
		"connect by rdma_cm, to an address of the server's device; give it to both ends")
	f.BoolVarP(&c.CMExchange, "comm-rdma-cm", "z", false,
		"meet by rdma_cm, at an address of one of the server's devices, and connect the rest as over TCP; "+
			"give it to both ends")
	f.BoolVar(&c.GIDv6, "ipv6", false, "the best GID of an IPv6 address; give it to both ends")
	f.BoolVar(&c.IPv6, "ipv6-addr", false, "meet at an IPv6 address of SERVER")
	f.StringVar(&c.Bind, "bind", "", "`address` that a server listens on; all if not given")

	source := f.String("bind-source-ip", "", "`address` that a client comes from (a server: --bind)")

	f.VarP((*size)(&c.Size), "size", "s", "message size, as 64, 4K or 1M (bw 64K, UD 1K, lat 2)")
	f.BoolVarP(&c.All, "all", "a", false,
		"all sizes, powers of two from 2 to 8M, or to -s (a stock peer always goes to 8M)")
	f.Uint64VarP(&c.Iters, "iters", "n", 0, "`messages` per queue pair and size (write bw 5000, others 1000)")
	f.VarP((*seconds)(&c.Duration), "duration", "D", "run for that long instead of a number of messages")
	f.VarP((*seconds)(&c.Margin), "margin", "f", "time before and after what -D measures (a quarter of it)")
	f.BoolVar(&c.Infinite, "run-infinitely", false,
		"until it is interrupted, with figures every 5 s, or every -D (bw)")
	f.Var((*seconds)(&c.Interval), "report-interval", "figures in between, every so often (bw)")
	f.Float64Var(&c.Rate.Limit, "rate-limit", 0, "send no more than this `rate`, in --rate-units (bw)")
	rateUnit := f.String("rate-units", "g", "`unit` of --rate-limit: g (Gb/s), M (MiB/s) or p (messages/s)")
	f.IntVar(&c.Rate.Burst, "burst-size", 0, "`messages` that --rate-limit lets out at once (as -t)")
	rateType := f.String("rate-limit-type", "SW",
		"`who` keeps to --rate-limit: SW, or HW, the adapter by packet pacing")
	f.IntVar(&c.Rate.Packet, "typical-pkt-size", 0, "`bytes` of a packet, for --rate-limit-type HW to reckon with")
	f.Var((*sizes)(&c.SizeList), "sizes", "these message sizes, as 64,4K,1M, or 2:8M:x4 in steps (bw, lat)")
	f.IntVar(&c.RecvList, "recv-post-list", 0, "post receives in lists of `n` (send bw)")
	f.IntVar(&c.PollMax, "cqe-poll", 0, "take at most `n` completions at once, up to 16 (bw)")
	f.BoolVarP(&c.Bidirectional, "bidirectional", "b", false, "both ends send (bw)")
	f.BoolVar(&c.Reversed, "reversed", false,
		"the server has the client's part: it sends, or reads; give it to both ends")
	f.BoolVar(&c.ReportBoth, "report-both", false, "show both directions of -b by themselves, in a run by time, too")
	f.BoolVar(&c.PerPort, "report-per-port", false, "show both ports of -O by themselves, in a run by time (-D)")
	f.BoolVar(&c.WarmUp, "perform-warm-up", false, "move -t messages first that do not count (write, read, atomic bw)")
	f.IntVarP(&c.QPs, "qp", "q", 1, "number of `queue pairs` (bw)")
	f.IntVar(&c.Threads, "threads", 1, "`number` of threads, each with as many of the queue pairs and a CQ of its own")
	f.BoolVar(&c.MRPerQP, "mr-per-qp", false, "memory and a registration of its own for each queue pair")
	f.IntVarP(&c.TxDepth, "tx-depth", "t", 0, "`depth` of the send queue (bw 128, lat 1)")
	f.IntVarP(&c.RxDepth, "rx-depth", "r", 0, "`depth` of the receive queue (send 512)")
	f.IntVarP(&c.PostList, "post-list", "l", 1, "post `n` messages at once (bw)")
	f.IntVarP(&c.CQMod, "cq-mod", "Q", 0, "ask for one completion every `n` messages (100; 1 above 8K)")
	f.IntVarP(&c.Inline, "inline-size", "I", plan.Auto,
		"send messages up to so many `bytes` inline (lat 220 or 236 if possible, bw 0)")
	f.IntVarP(&c.OutReads, "outs", "o", 0, "outstanding `reads` (what the device can)")
	f.BoolVarP(&c.Events, "events", "e", false, "sleep for completions instead of polling (not write lat)")

	f.IntVarP(&c.Vector, "vector", "X", 0, "completion `vector` of -e")
	f.IntVarP(&c.MTU, "mtu", "m", 0, "path MTU in `bytes` (that of the port)")
	f.Uint8VarP(&c.QPTimeout, "qp-timeout", "u", plan.DefaultQPTimeout, "ACK timeout, 4.096 us x 2^`n`; 0 never")
	f.Uint8VarP(&c.SL, "sl", "S", 0, "service `level`")
	f.Uint8Var(&c.TClass, "tclass", 0, "traffic `class`")
	f.Uint8P("tos", "T", 0, "with -R and RawEth: type of `service`, which is the traffic class")
	f.Var((*labels)(&c.FlowLabels), "flow-label", "flow `label`, or one for each queue pair in turn, as 5,6,7")
	f.Uint16Var(&c.PKeyIndex, "pkey-index", 0, "`index` of the partition key")
	conn := f.StringP("connection", "c", "RC", "connection `type`: RC, UC, UD, XRC, DC, SRD or RawEth")
	f.BoolVarP(&c.Multicast, "mcg", "g", false, "send to a multicast group (-c UD; RoCE)")
	group := f.StringP("MGID", "M", "", "`GID` of the group of -g")
	fr := &c.Frames
	f.BoolVarP(&fr.Connects, "client", "P", false, "RawEth: be the client, which needs no SERVER")
	f.BoolP("server", "Z", false, "RawEth: be the server, as without --client")
	f.VarP((*mac)(&fr.Own), "source-mac", "B", "RawEth: Ethernet `address` of this end")
	f.VarP((*mac)(&fr.Peer), "dest-mac", "E", "RawEth: Ethernet `address` of the peer")
	f.Uint16VarP(&fr.EtherType, "ethertype", "Y", 0, "RawEth: `type` of the frames (with -J IPv4's, else their length)")
	f.VarP((*ip)(&fr.Server), "dest-ip", "J", "RawEth: IP `address` of the server; the frames have a header then")
	f.VarP((*ip)(&fr.Client), "source-ip", "j", "RawEth: IP `address` of the client")
	f.Uint16VarP(&fr.ServerPort, "dest-port", "K", 0, "RawEth: UDP `port` of the server; the frames have a header then")
	f.Uint16VarP(&fr.ClientPort, "source-port", "k", 0, "RawEth: UDP `port` of the client")
	f.BoolVar(&fr.TCP, "tcp", false, "RawEth: the ports are TCP's")
	rawIPv6 := f.Bool("raw-ipv6", false, "RawEth: the addresses are of IPv6, which they say themselves")
	f.Uint8VarP(&fr.HopLimit, "hop-limit", "L", 0, "RawEth: hop `limit`, or time to live (64)")
	f.BoolVar(&fr.VLAN, "vlan-en", false, "RawEth: the frames have a tag, of VLAN 1")
	pcp := f.Uint8("vlan-pcp", 1, "RawEth: `priority` in that tag; 8 for each in turn")
	f.IntVar(&fr.Flows, "flows", 0, "RawEth: frames of `n` pairs of ports in turn, from -K and -k on (bw)")
	f.IntVar(&fr.Burst, "flows-burst", 0, "RawEth: `n` frames of each before the next one's")
	f.BoolVar(&fr.Promiscuous, "promiscuous", false, "RawEth: receive all frames that nobody else does")
	f.BoolVar(&fr.Sniffer, "sniffer", false, "RawEth: receive a copy of all frames")
	f.BoolVar(&c.SendImm, "send-with-imm", false, "the messages carry immediate data (send)")
	f.BoolVar(&c.UseSRQ, "use-srq", false,
		"receive from one shared receive queue of depth -r (send; XRC and DC always do)")

	hugePages := f.Bool("use-hugepages", false, "messages stand in huge pages")
	f.StringVar(&c.Memory.File, "mmap", "", "messages stand in this `file`, which they overwrite")
	f.Int64Var(&c.Memory.Offset, "mmap-offset", 0, "and begin at this `byte` of it")
	payloadFile := f.String("payload-file-path", "",
		"messages are made of this `file`: 0x03020100,0x07060504,…, the lowest byte first")
	useDM := f.Bool("use-dm", false, "messages stand in memory of the device")
	f.IntVar(&c.Memory.GPU, "use-cuda", 0, "messages stand in memory of GPU `n`, from 0, by nvidia_peermem")
	f.StringVar(&c.Memory.BusID, "use-cuda-bus-id", "", "the same by the GPU's PCI `address`, as 0000:3b:00.0")
	f.BoolVar(&c.Memory.Dmabuf, "use-cuda-dmabuf", false, "the GPU's memory is a dma-buf, without nvidia_peermem")
	f.BoolVar(&c.Memory.DataDirect, "use-data-direct", false, "and reached by the data-direct function of mlx5")
	f.BoolVar(&c.Memory.OnDemand, "odp", false, "register on demand (on-demand paging) instead of pinning")
	f.BoolVar(&c.Memory.Implicit, "odp-implicit", false, "the same by one registration of the whole address space")
	f.BoolVar(&c.Memory.Null, "use-null-mr", false, "what this end posts names a null MR (write bw, read)")
	f.BoolVar(&c.Memory.Ordered, "disable-pcie-relaxed", false,
		"no relaxed ordering on PCIe (perftest has it on, too, but in write lat)")
	f.Var((*cpus)(&c.CPUs), "cpus", "run on these `CPUs`, as 2-5,8 (those of the device's NUMA node)")
	f.IntVar(&c.Node, "numa-node", plan.Auto, "run on the CPUs and in the memory of this NUMA `node` (the device's)")
	f.BoolVar(&c.NoPin, "no-pin", false, "leave the choice of CPUs, and of the memory's node, to the kernel")

	atomic := f.StringP("atomic-type", "A", "FETCH_AND_ADD", "`operation` of atomic: FETCH_AND_ADD or CMP_AND_SWAP")
	lat := f.String("lat-def", "perftest",
		"latency `definition`: perftest (half round trip; read: whole) or cqe (post to completion)")
	f.Var((*microseconds)(&c.Gap), "latency-gap", "wait before each message, which does not count (lat)")
	f.BoolVar(&c.HWTimestamps, "hw-timestamps", false,
		"show the times between completions, by the adapter's clock (bw)")
	f.BoolVarP(&c.NoPeak, "no-peak", "N", false, "do not look for the peak (bw)")
	f.BoolVar(&c.Counters, "counters", false,
		"show by how much the counters of the port rose, and which tell of trouble")
	f.StringSliceVarP(&c.CounterNames, "report-counters", "W", nil, "the same of these counters alone, as `a,b`")
	f.BoolVar(&c.CPUUtil, "cpu-util", false, "show what the processor of this end had to do")
	f.BoolVar(&c.Gbits, "report-gbits", false, "Gb/s instead of MiB/s; give it to both ends")
	f.BoolVar(&c.Verify, "verify", false, "check the payload; both ends must be this program")
	f.Bool("write-with-imm", false, "write with immediate data, which takes receives of the peer (write)")
	f.StringVar(&o.only, "output", "", "print nothing but one `figure`: bandwidth, message_rate or latency (the mean)")
	asJSON := f.Bool("json", false, "one JSON object with all results instead of a table")
	asCSV := f.Bool("csv", false, "lines of comma-separated values instead of a table")
	outJSON := f.Bool("out-json", false, "write the JSON object to a file, too")
	f.StringVar(&o.jsonFile, "out-json-file", "", "`file` for --out-json (perftest_out.json)")
	limitBW := f.Float64P("limit-bw", "w", 0, "fail below this bandwidth, in the `unit` of the table")
	limitRate := f.Float64P("limit-msgrate", "y", 0, "fail below this many `million` messages per second")
	minBW := f.Float64("min-bw", 0, "fail below this bandwidth, in `Gb/s`")
	maxLat := f.Float64("max-lat", 0, "fail above this median latency, in `microseconds`")
	maxP99 := f.Float64("max-p99", 0, "fail above this 99th percentile of latency, in `microseconds`")
	f.BoolVarP(&o.histogram, "report-histogram", "H", false, "show the latency histogram (lat)")
	f.BoolVarP(&c.Unsorted, "report-unsorted", "U", false, "show each sample, in order (lat)")
	f.Var((*seconds)(&c.Timeout), "timeout", "give up when the peer is silent, or nothing completes, for that long")
	f.Var((*seconds)(&c.Patience), "retry", "how long a client tries to reach a server")
	f.IntVar(&o.agentPort, "agent", 0, "ask the perf serve at this TCP `port` of SERVER to be the server")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with that agent's token")
	f.BoolVar(&c.ShortNeg, "short-6-28", false, "as client of a perftest 6.28 that was built without mlx5")
	f.IntVar(&c.ListenFD, "listen-fd", 0, "`descriptor` of a socket that listens already")
	f.Lookup("listen-fd").Hidden = true
	f.BoolP("cpu-freq", "F", false, "accepted and ignored, as the clock needs no help")
	f.Lookup("cpu-freq").Hidden = true
	for _, n := range []string{"gid-index", "margin", "inline-size", "duration", "limit-bw", "limit-msgrate", "min-bw",
		"max-lat", "max-p99", "report-interval", "sizes", "source-mac", "dest-mac", "dest-ip", "source-ip", "cpus",
		"use-cuda", "numa-node", "latency-gap", "flow-label", "report-counters"} {
		f.Lookup(n).DefValue = "0" // the text says what happens without it
	}
	f.BoolP("version", "V", false, "print the version")
	f.BoolP("help", "h", false, "this text")

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
			return errors.New("priority (--vlan-pcp): it stands in a tag (--vlan-en)")
		}
		if *rawIPv6 && !fr.IPv6() {
			return errors.New("--raw-ipv6: give addresses of IPv6 (-J, -j)")
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
			return fmt.Errorf("type of rate (--rate-limit-type) %q, allowed are SW, HW and PP (as HW)", *rateType)
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
			return fmt.Errorf("latency definition (--lat-def) %q, allowed are perftest and cqe", *lat)
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

// checkOnly looks at the one figure that is to be printed.
func (o *options) checkOnly() error {
	bw := o.asked.Metric == wire.Bandwidth
	switch {
	case o.only == "":
		return nil
	case o.format != formatText:
		return errors.New("--output: it is the text, which --json and --csv replace")
	case bw && o.only != report.OnlyBandwidth && o.only != report.OnlyRate, !bw && o.only != report.OnlyLatency:
		return fmt.Errorf("--output %q, allowed are %s and %s of bw, %s of lat", o.only, report.OnlyBandwidth,
			report.OnlyRate, report.OnlyLatency)
	case o.histogram || o.asked.Unsorted || o.asked.HWTimestamps:
		return errors.New("--output: one figure is no histogram (-H), no samples (-U) and no --hw-timestamps")
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
			return nil, fmt.Errorf("%.100q is no command: there are write, read, send, atomic, stream, message, "+
				"compare, report, doctor, serve and mesh", a[0])
		}
	}
	if len(a) < 2 {
		return nil, errors.New("say what to do: perf {write|read|send|atomic} {bw|lat} [options] [server]")
	}
	var err error
	if o.asked.Verb, err = wire.ParseVerb(a[0]); err != nil {
		return nil, err
	}
	if imm, _ := f.GetBool("write-with-imm"); imm && o.asked.Verb == wire.Write {
		o.asked.Verb = wire.WriteImm
	} else if imm && o.asked.Verb != wire.WriteImm {
		return nil, fmt.Errorf("--write-with-imm: only write has it, not %v", o.asked.Verb)
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
		return nil, errors.New("limits of bandwidth and rate (-w, -y, --min-bw): only bandwidth tests have them")
	} else if o.asked.Metric == wire.Bandwidth && (l.MaxP50Ns > 0 || l.MaxP99Ns > 0) {
		return nil, errors.New("limits of latency (--max-lat, --max-p99): only latency tests have them")
	} else if (l.MaxP50Ns > 0 || l.MaxP99Ns > 0) && o.asked.Verb.Fetches() &&
		(o.asked.Host == "") != o.asked.Reversed {
		return nil, fmt.Errorf("limits (--max-lat, --max-p99): this end of %v lat measures nothing, "+
			"give them to the client (with --reversed to the server)", o.asked.Verb)
	}
	byCM := o.asked.RDMACM || o.asked.CMExchange
	if f.Changed("agent") && (o.agentPort < 1 || o.agentPort > 65535 || o.asked.Host == "" || byCM) {
		return nil, fmt.Errorf("--agent %d: give a client the TCP port of the agent, 1 to 65535, and neither -R nor -z",
			o.agentPort)
	} else if f.Changed("token-file") && !f.Changed("agent") {
		return nil, errors.New("--token-file needs --agent")
	}
	if o.format == formatCSV && (o.histogram || o.asked.Unsorted) {
		return nil, errors.New("histogram and samples (-H, -U): --csv has no room for them, --json has")
	}
	if o.format == formatCSV && o.asked.HWTimestamps {
		return nil, errors.New("timestamps of the adapter (--hw-timestamps): --csv has no room for them, --json has")
	}
	if err := o.checkOnly(); err != nil {
		return nil, err
	}
	if o.histogram && o.asked.Metric != wire.Latency {
		return nil, errors.New("histogram (-H): only latency tests have it")
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
		return nil, errors.New("--agent: it serves one connection; give one device (-d) and one server")
	}
	return o, nil
}

// usage is the help text.
func usage() string {
	return `perf measures RDMA between two ends, and talks to perftest's programs as well as
to itself: ib_write_bw, ib_write_lat, ib_read_bw, ib_read_lat, ib_send_bw, ib_send_lat,
ib_atomic_bw and ib_atomic_lat may stand at the other end, as server or as client.

  perf {write|read|send|atomic} {bw|lat} [options]            server: waits for one client
  perf {write|read|send|atomic} {bw|lat} [options] SERVER     client; A,B: of several servers at once

  perf {stream|message} {bw|lat} --help                       package rdma's streams and messages

Give both ends the same test and the same -s -a -n -D -q -b -R -c -A (-m -p).

With -R the exchange goes over a queue pair too, and there is no TCP; with -z
only the exchange does. Stock programs have to be given the same, and --ipv6-addr
for addresses of IPv6, which those before 6.16 do not know.

` + flagSet(&options{}).FlagUsages() + `
perf compare --help says how two runs are compared.
perf report --help says how charts are made of runs.
perf doctor --help says how this machine is looked at, and what is wrong with it.
perf serve --help says how an agent serves many clients.
perf mesh --help says how all pairs of many hosts are measured.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 a limit (-w, -y, --min-bw, --max-lat,
--max-p99) was missed.
`
}
