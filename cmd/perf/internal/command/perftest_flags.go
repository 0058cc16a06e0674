package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Reasons that several options have.
const (
	noCrypto  = "not supported: encryption by the adapter; programs can make keys with mlx5dv (CreateDEK, CreateMkey)"
	noGPU     = "not supported: accelerators other than NVIDIA GPUs (--use-cuda) and mapped files (--mmap)"
	noHints   = "PCIe TPH hints are not supported; place the test near the device (--cpus, --numa-node)"
	noReorder = "the device's configuration decides on packet order"
	noStreams = "a DC initiator has one stream; use more queue pairs (-q)"
	noCheck   = "rdmaperf checks the payload with --verify, if both ends are rdmaperf"
	oneWay    = "rdmaperf posts and polls in one way"
)

// perftestFlags declares perftest's options that have no effect here, and those that are refused: what they ask for
// would be missing without a sign.
func perftestFlags() []flagRow {
	number := func() any { return new(uint64) }
	rows := []flagRow{
		{names: "C report-cycles", tests: "lat", idle: "figures are in microseconds; --json has nanoseconds"},
		{names: "no-lock", idle: oneWay},
		{names: "use-old-post-send", idle: oneWay},
		{names: "disable-dynamic-polling", idle: oneWay},
		{names: "inline-recv", value: number(), idle: "the device decides whether completions carry short messages"},
		{names: "force-link", value: linkLayer, idle: "rdmaperf reads the link layer from the port"},
		{names: "dlid", value: number(), idle: "the peer sends its LID"},
		{names: "dont-xchg-versions", idle: "the exchange depends on the versions of both ends"},
		{names: "wait-destroy", value: number(), idle: "rdmaperf destroys nothing before the peer is done"},
		{names: "log-dci-streams", value: number(), idle: noStreams},
		{names: "log-active-dci-streams", value: number(), idle: noStreams},
		{names: "use-ooo", idle: noReorder},
		{names: "no-ddp", idle: noReorder},
		{names: "no-enhanced-reorder", idle: noReorder},
		{names: "unsolicited-write", tests: "write", idle: "write with immediate data always posts receives"},
		{names: "congest-type", value: word("DCQCN LDCP HC3 DIP"),
			idle: "the congestion control of hns is set in the device's sysfs"},
		{names: "aes-block-size", value: number(), idle: "rdmaperf does not encrypt"},
		{names: "data-enc-keys-number", value: number(), idle: "rdmaperf does not encrypt"},
		{names: "sig-offload", idle: "not supported: signatures by the adapter; messages have none"},
		{names: "data-validation", tests: "write read bw", idle: noCheck},
		{names: "data-validation-debug", idle: noCheck},
		{names: "tph-mem", value: new(string), idle: noHints},
		{names: "cpu-id", value: number(), idle: noHints},
		{names: "ph", value: number(), only: [2]int64{0, 3}, idle: noHints},
		{names: "use-cuda-pcie-mapping", idle: "a GPU's dma-buf has the default mapping; see --use-data-direct"},
		{names: "cuda-mem-type", value: number(), idle: "GPU memory comes from cuMemAlloc"},
		{names: "gpu-touch", value: new(string), idle: "rdmaperf runs no code on the GPU"},
		{names: "v mac-fwd", idle: "rdmaperf forwards no frames, it sends its own; use perftest's raw_ethernet_bw -v"},
		{names: "reply-every", value: number(), idle: "each frame is answered; use perftest's raw_ethernet_burst_lat"},

		{names: "G use-rss",
			refused: "not supported: spread frames over queue pairs by port: -q, as many --threads, -K and -k"},
		{names: "connectionless", refused: "not supported: a multicast (-g) server serves one client; to receive " +
			"from many, start one server for each, on different ports (-p)"},
		{names: "use-ib-dm-dmabuf", value: new(string),
			refused: "not supported: device memory as a dma-buf; use --use-dm"},
	}
	for _, name := range strings.Fields("aes-xts encrypt-on-tx sig-before") {
		rows = append(rows, flagRow{names: name, refused: noCrypto})
	}
	for _, name := range strings.Fields("kek-path credentials-path data-enc-key-app-path") {
		rows = append(rows, flagRow{names: name, value: new(string), refused: noCrypto})
	}
	for _, name := range strings.Fields("use-rocm-dmabuf use-neuron-dmabuf use-mlu-dmabuf use-musa-dmabuf " +
		"use-musa-pcie-mapping") {
		rows = append(rows, flagRow{names: name, refused: noGPU})
	}
	for _, name := range strings.Fields("use-rocm use-neuron use-hl use-mlu use-opencl opencl-platform-id use-musa " +
		"use-musa-bus-id") {
		rows = append(rows, flagRow{names: name, value: new(string), refused: noGPU})
	}
	for i := range rows {
		rows[i].text = rows[i].idle + rows[i].refused
	}
	return rows
}

// asPerftest checks a command line of perftest for what its programs refuse, and rdmaperf does not, or the other way
// round.
func (o *options) asPerftest(f *pflag.FlagSet) error {
	if !o.perftest {
		return nil
	}
	c := &o.asked
	var list []error
	refuse := func(when bool, name, why string) {
		if when && f.Changed(name) {
			list = append(list, fmt.Errorf("%s: %s, as in perftest", flagName(f.Lookup(name)), why))
		}
	}
	refuse(c.Metric == wire.Latency, "no-peak", "only for bandwidth tests")
	refuse(c.Verb != wire.Atomic, "atomic-type", "only for atomic")
	refuse(c.Verb.Fetches(), "inline-size", "not for read and atomic")
	refuse(!c.Queues.Events, "vector", "only with events (-e)")
	refuse(c.Load.Margin < 0, "margin", "not below 0")
	streams := c.Transport != wire.DC && f.Lookup("log-dci-streams").Value.String() != "0"
	refuse(streams, "log-dci-streams", "only for -c DC")

	unfit := func(when bool, name, why string) {
		if when && f.Changed(name) {
			list = append(list, &plan.Unfit{Option: name, Reason: why})
		}
	}
	unfit(c.Load.All, "size", "all sizes (-a) are powers of two from 2 to 8M, as in perftest")
	unfit(c.Load.Infinite, "all", "an endless run (--run-infinitely) has one size")
	unfit(o.given.static, "rate-limit-type",
		"rdmaperf does not set InfiniBand's static rate (HW), it limits the rate itself (SW)")
	if f.Changed("rate-limit-type") && !f.Changed("rate-limit") {
		unfit(true, "rate-limit-type", "no rate (--rate-limit) is given")
		unfit(true, "burst-size", "no rate (--rate-limit) is given")
	}
	return errors.Join(list...)
}

// word returns what reads one of several words.
func word(among string) func(string) error {
	return func(t string) error {
		if !slices.Contains(strings.Fields(among), t) {
			return fmt.Errorf("%q; allowed: %s", t, among)
		}
		return nil
	}
}

// linkLayer reads a link layer as perftest does.
func linkLayer(t string) error {
	t = strings.ToLower(t)
	if !strings.HasPrefix(t, "ib") && !strings.HasPrefix(t, "ethernet") {
		return fmt.Errorf("link layer (--force-link) %q; allowed: IB and Ethernet", t)
	}
	return nil
}
