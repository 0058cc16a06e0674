package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// perftestLetters are perftest's short options that are no flags here.
var perftestLetters = map[string]string{"C": "report-cycles", "G": "use-rss", "v": "mac-fwd"}

const (
	noCrypto   = "not supported: encryption by the adapter; programs can make keys with mlx5dv (CreateDEK, CreateMkey)"
	noRate     = "not supported: the rate of creating flow rules; use perftest's raw_ethernet_fs_rate"
	noGPU      = "not supported: accelerators other than NVIDIA GPUs (--use-cuda) and mapped files (--mmap)"
	noHints    = "not supported: PCIe TPH hints; place the test near the device (--cpus, --numa-node)"
	noPolling  = "no effect: perf posts and polls in one way only; leave it out"
	noStreams  = "not supported: several streams of a DC initiator; use more queue pairs (-q)"
	noReorder  = "not supported: the device's configuration decides on packet order; leave it out"
	noValidity = "not supported: perf checks the payload with --verify, if both ends are perf"
)

// perftestRefused are perftest's options that perf does not have, with the reason and the way out.
var perftestRefused = map[string]string{
	"aes-xts": noCrypto, "encrypt-on-tx": noCrypto, "sig-before": noCrypto, "aes-block-size": noCrypto,
	"kek-path": noCrypto, "credentials-path": noCrypto, "data-enc-keys-number": noCrypto,
	"data-enc-key-app-path": noCrypto,
	"sig-offload":           "not supported: signatures by the adapter; programs can use mlx5dv (CreateMkey)",

	"use-rocm": noGPU, "use-rocm-dmabuf": noGPU, "use-neuron": noGPU, "use-neuron-dmabuf": noGPU, "use-hl": noGPU,
	"use-mlu": noGPU, "use-mlu-dmabuf": noGPU, "use-opencl": noGPU, "opencl-platform-id": noGPU, "use-musa": noGPU,
	"use-musa-dmabuf": noGPU, "use-musa-bus-id": noGPU,
	"use-musa-pcie-mapping": noGPU,
	"use-cuda-pcie-mapping": "not supported: a GPU's dma-buf has the default mapping; see --use-data-direct",
	"cuda-mem-type":         "not supported: GPU memory comes from cuMemAlloc; leave it out",
	"gpu-touch":             "not supported: perf runs no code on the GPU; leave it out",
	"use-ib-dm-dmabuf":      "not supported: device memory as a dma-buf; use --use-dm",

	"tph-mem": noHints, "cpu-id": noHints, "ph": noHints,

	"no-lock": noPolling, "use-old-post-send": noPolling, "disable-dynamic-polling": noPolling,
	"inline-recv": "no effect: the device decides whether completions carry short messages; leave it out",

	"log-dci-streams": noStreams, "log-active-dci-streams": noStreams,
	"use-ooo": noReorder, "no-ddp": noReorder, "no-enhanced-reorder": noReorder,
	"unsolicited-write": "not supported: write with immediate data always posts receives; leave it out",
	"connectionless": "not supported: a multicast (-g) server serves one client; to receive from many, start one " +
		"server for each, on different ports (-p)",
	"congest-type": "not supported: the congestion control of hns; set it in the device's sysfs",

	"force-link":            "not needed: perf reads the link layer from the port; leave it out",
	"dlid":                  "not needed: the peer sends its LID; leave it out",
	"dont-xchg-versions":    "not supported: the exchange depends on the versions; use perftest 5.70 or later",
	"wait-destroy":          "not needed: perf destroys nothing before the peer is done; leave it out",
	"report-cycles":         "not supported: figures are in microseconds; --json has nanoseconds",
	"data-validation":       noValidity,
	"data-validation-debug": noValidity,

	"local-ip": noRate, "remote-ip": noRate, "local-port": noRate, "remote-port": noRate,
	"use-rss": "not supported: spread frames over queue pairs by port: -q, as many --threads, -K and -k",
	"raw-mcast": "not supported: give the group's Ethernet address, such as 01:00:5e:00:00:05, to the client as -E " +
		"and to the server as -B",
	"mac-fwd":     "not supported: forwarding of frames; use perftest's raw_ethernet_bw -v",
	"reply-every": "not supported: each frame is answered; use perftest's raw_ethernet_burst_lat",
}

// names returns the flags by each of their long names. A refused one has only its own.
var names = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for name := range perftestRefused {
		m[name] = name
	}
	for _, s := range table(&options{}) {
		for _, row := range s.flags {
			_, name, others := row.words()
			for _, o := range append(others, name) {
				m[o] = name
			}
		}
	}
	return m
})

// normal returns a flag's name as perf has it: perftest's may be written with - or _.
func normal(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	return pflag.NormalizedName(cmp.Or(names()[name], name))
}

// abbreviated is normal for the flags of tests: as in perftest, a beginning that only one name has is enough.
func abbreviated(f *pflag.FlagSet, name string) pflag.NormalizedName {
	n := normal(f, name)
	if _, whole := names()[string(n)]; whole {
		return n
	}
	if list := beginning(string(n)); len(list) == 1 {
		return pflag.NormalizedName(list[0])
	}
	return n
}

// beginning lists the flags with a name that begins so.
func beginning(with string) (list []string) {
	for name, flag := range names() {
		if with != "" && strings.HasPrefix(name, with) && !slices.Contains(list, flag) {
			list = append(list, flag)
		}
	}
	slices.Sort(list)
	return list
}

// unknown explains a flag that is not there.
func unknown(err error, f *pflag.FlagSet) error {
	var none *pflag.NotExistError
	if !errors.As(err, &none) {
		return err
	}
	name := string(f.GetNormalizeFunc()(f, none.GetSpecifiedName()))
	said := "--" + none.GetSpecifiedName()
	if none.GetSpecifiedShortnames() != "" {
		said = "-" + none.GetSpecifiedName()
		name = perftestLetters[none.GetSpecifiedName()]
	}
	if why := perftestRefused[name]; why != "" {
		return fmt.Errorf("%s: %s", said, why)
	}
	if list := beginning(name); f.Lookup("connection") != nil && len(list) > 1 {
		return fmt.Errorf("%s: is the beginning of --%s", said, strings.Join(list, " and --"))
	}
	if near := similar(name, f); name != "" && len(near) > 0 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return err
}

// similar lists the flags that a mistyped name may mean.
func similar(name string, f *pflag.FlagSet) []string {
	var names cobra.Command // cobra compares names of commands
	names.SuggestionsMinimumDistance = 2
	f.VisitAll(func(fl *pflag.Flag) {
		if !fl.Hidden {
			names.AddCommand(&cobra.Command{Use: fl.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names.SuggestionsFor(name)
}

// suggest adds the commands that a mistyped one may mean to an error.
func suggest(err error, root *cobra.Command, words []string) error {
	if err == nil || len(words) == 0 {
		return err
	}
	if _, known := wire.ParseVerb(words[0]); known == nil {
		return err
	}
	root.SuggestionsMinimumDistance = 2
	if near := root.SuggestionsFor(words[0]); len(near) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}
