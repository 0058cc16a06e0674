package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// perftestAliases are perftest's names of flags that have another name here.
var perftestAliases = map[string]string{
	"noPeak":          "no-peak",
	"CPU-freq":        "cpu-freq",
	"pin-cores":       "cpus",
	"disable-numa":    "no-pin",
	"report-histogrm": "report-histogram",
	"local-mac":       "source-mac",
	"remote-mac":      "dest-mac",
}

// perftestLetters are perftest's short options that are no flags here.
var perftestLetters = map[string]string{"C": "report-cycles", "G": "use-rss", "v": "mac-fwd"}

const (
	noCrypto   = "encryption by the adapter is not there; a program makes keys by mlx5dv (CreateDEK, CreateMkey)"
	noRate     = "the rate of making flow rules is not measured; raw_ethernet_fs_rate does that"
	noGPU      = "of accelerators only NVIDIA's GPUs are there (--use-cuda), and what a file maps (--mmap)"
	noHints    = "hints for PCIe's TPH are not there; place the test near the device instead (--cpus, --numa-node)"
	noPolling  = "it makes no difference to perf, which posts and polls in one way; leave it out"
	noStreams  = "DC initiators have one stream; use more queue pairs (-q)"
	noReorder  = "perf leaves the order of packets to the device's configuration; leave it out"
	noValidity = "perf checks the payload by --verify, between two of its own"
)

// perftestRefused are perftest's options that perf does not have, with the reason and the way out.
var perftestRefused = map[string]string{
	"aes-xts": noCrypto, "encrypt-on-tx": noCrypto, "sig-before": noCrypto, "aes-block-size": noCrypto,
	"kek-path": noCrypto, "credentials-path": noCrypto, "data-enc-keys-number": noCrypto,
	"data-enc-key-app-path": noCrypto,
	"sig-offload":           "signatures by the adapter are not there; a program makes them by mlx5dv (CreateMkey)",

	"use-rocm": noGPU, "use-rocm-dmabuf": noGPU, "use-neuron": noGPU, "use-neuron-dmabuf": noGPU, "use-hl": noGPU,
	"use-mlu": noGPU, "use-mlu-dmabuf": noGPU, "use-opencl": noGPU, "opencl-platform-id": noGPU, "use-musa": noGPU,
	"use-musa-dmabuf": noGPU, "use-musa-bus-id": noGPU,
	"use-cuda-pcie-mapping": "a dma-buf of a GPU has the default mapping; --use-data-direct chooses the other path",
	"cuda-mem-type":         "a GPU's memory is that of cuMemAlloc; leave it out",
	"gpu-touch":             "nothing runs on the GPU beside the test; leave it out",
	"use-ib-dm-dmabuf":      "the device's memory is used directly: --use-dm",

	"tph-mem": noHints, "cpu-id": noHints, "ph": noHints,

	"no-lock": noPolling, "use-old-post-send": noPolling, "disable-dynamic-polling": noPolling,
	"inline-recv": "completions carry short messages where the device does so by itself; leave it out",

	"log-dci-streams": noStreams, "log-active-dci-streams": noStreams,
	"use-ooo": noReorder, "no-ddp": noReorder, "no-enhanced-reorder": noReorder,
	"unsolicited-write": "receives of write with immediate data are always posted; leave it out",
	"connectionless": "a server of multicast (-g) meets its client; to receive from many, start one for each, on " +
		"ports of its own (-p)",
	"congest-type": "the congestion control of hns is not chosen here; set it by the device's sysfs",

	"force-link": "the port says itself what its link is; leave it out",
	"dlid":       "the peer tells its LID in the exchange; leave it out",
	"dont-xchg-versions": "the versions are how two ends know what they may say; a perftest that is older than 5.70 " +
		"is not spoken to",
	"retry-count":           "a client tries for as long as --retry says, in seconds",
	"wait-destroy":          "nothing is destroyed before the peer is done; leave it out",
	"report-cycles":         "the clock's rate is measured, and figures are in microseconds; --json has nanoseconds",
	"data-validation":       noValidity,
	"data-validation-debug": noValidity,

	"local-ip": noRate, "remote-ip": noRate, "local-port": noRate, "remote-port": noRate,
	"use-rss":     "frames are spread over queue pairs by their ports: -q with as many --threads, and -K, -k",
	"raw-mcast":   "give the group's Ethernet address, as 01:00:5e:00:00:05, by -E to the client, by -B to the server",
	"mac-fwd":     "frames are not forwarded; raw_ethernet_bw -v does that",
	"reply-every": "each frame is answered; raw_ethernet_burst_lat does without",
}

// normal returns a flag's name as perf has it: perftest's may be written with - or _.
func normal(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	if alias := perftestAliases[name]; alias != "" {
		name = alias
	}
	return pflag.NormalizedName(name)
}

// unknown explains a flag that is not there.
func unknown(err error, f *pflag.FlagSet) error {
	var none *pflag.NotExistError
	if !errors.As(err, &none) {
		return err
	}
	name := string(normal(f, none.GetSpecifiedName()))
	said := "--" + none.GetSpecifiedName()
	if none.GetSpecifiedShortnames() != "" {
		said = "-" + name
		name = perftestLetters[name]
	}
	if why := perftestRefused[name]; why != "" {
		return fmt.Errorf("%s: %s", said, why)
	}
	if whole := completions(name, f); len(whole) > 0 {
		return fmt.Errorf("%s: there are no abbreviations; say --%s", said, strings.Join(whole, " or --"))
	}
	return err
}

// completions lists the flags, and perftest's options, that begin with a name.
func completions(name string, f *pflag.FlagSet) (list []string) {
	add := func(whole string) {
		if name != "" && strings.HasPrefix(whole, name) {
			list = append(list, whole)
		}
	}
	f.VisitAll(func(fl *pflag.Flag) { add(fl.Name) })
	for whole := range perftestRefused {
		add(whole)
	}
	slices.Sort(list)
	return list
}
