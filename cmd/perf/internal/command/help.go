package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

const rootUsage = `rdmaperf measures the bandwidth and latency of RDMA between two hosts. The other end may also be
perftest: ib_write_bw, ib_write_lat, ib_read_bw, ib_read_lat, ib_send_bw, ib_send_lat,
ib_atomic_bw or ib_atomic_lat, as server or as client; with -c RawEth, raw_ethernet_bw or
raw_ethernet_lat. Under one of these names, as a link, rdmaperf runs that test.

  rdmaperf {write|read|send|atomic} {bw|lat} [options]          server: serves one client
  rdmaperf {write|read|send|atomic} {bw|lat} [options] SERVER   client; A,B: several servers at once

Other commands. Each command has its own --help: rdmaperf write lat --help shows the options of
that test.

{commands}
` + bothEnds + `

The two ends exchange their parameters over TCP. With -R they connect and exchange through
rdma_cm, and use no TCP; with -z only the exchange uses rdma_cm. Give perftest the same
option, and for IPv6 addresses also --ipv6-addr, which perftest has since 6.16.

{flags}
` + testStatus

const (
	bothEnds   = `Give both ends the same command and the same -s -a -n -D -q -b -R -c -A, and -m -p if given.`
	testStatus = `Exit status: 0 success, 1 failure, 2 wrong usage, 3 a limit (-w, -y, --min-bw, --max-lat,
--max-p99) was missed.
`
)

// verbUsage is the text of a command that is a verb.
func verbUsage(v wire.Verb) string {
	return fmt.Sprintf(`rdmaperf %[1]v measures bandwidth (bw) or latency (lat) of RDMA %[1]v between two hosts. The other
end may also be perftest's ib_%[1]v_bw or ib_%[1]v_lat.

  rdmaperf %[1]v {bw|lat} [options]            server: serves one client
  rdmaperf %[1]v {bw|lat} [options] SERVER     client; A,B: several servers at once

`, v) + bothEnds + "\n\n{flags}\n" + testStatus
}

// help returns the text that --help of a command prints, with the flags and the commands in place of their braces.
func (v *invocation) help(c *cobra.Command) string {
	text := c.Long
	if !strings.Contains(text, "{flags}") { // a command of cobra
		text = strings.TrimSpace(text) + "\n\n{commands}\n{flags}"
	}
	filled := strings.NewReplacer("{flags}", v.flagUsages(c), "{commands}", subcommands(c))
	return perftestHelp(v.path) + filled.Replace(text)
}

func subcommands(c *cobra.Command) string {
	var b strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !slices.ContainsFunc(testVerbs, func(v wire.Verb) bool {
			return sub.Name() == v.String()
		}) {
			fmt.Fprintf(&b, "  %-30s  %s\n", sub.CommandPath(), sub.Short)
		}
	}
	return b.String()
}

func (v *invocation) flagUsages(c *cobra.Command) string {
	var b strings.Builder
	for _, s := range v.sections(c) {
		if s.title != "" {
			fmt.Fprintf(&b, "%s:\n", s.title)
		}
		fmt.Fprintf(&b, "%s\n", s.flags.FlagUsagesWrapped(100))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// flagSection is a part of a command's flags.
type flagSection struct {
	title string
	flags *pflag.FlagSet
}

// sections returns the flags of a command. Those of a test are the ones of the verb and the metric that are on the
// command line.
func (v *invocation) sections(c *cobra.Command) []flagSection {
	verb := c.Name()
	if !c.HasParent() {
		verb = ""
	} else if !slices.ContainsFunc(testVerbs, func(v wire.Verb) bool { return v.String() == verb }) {
		return []flagSection{{flags: c.LocalFlags()}}
	}
	metric := ""
	for _, word := range v.args {
		if word == "bw" || word == "lat" {
			metric = word
		}
	}
	var list []flagSection
	for _, s := range v.test.table {
		if s.title == hidden {
			continue
		}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.SortFlags = false
		for _, row := range s.flags {
			if row.fits(verb, metric) {
				f.AddFlag(v.flags.Lookup(row.name()))
			}
		}
		if f.HasFlags() {
			list = append(list, flagSection{s.title, f})
		}
	}
	return list
}
