package command

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

const takesFolder = "testdata/perftest"

// stockProgram is one of perftest's programs, and the options that all of its lines have.
type stockProgram struct{ line string }

const (
	rawEnds  = " --client --source_mac=02:00:00:00:00:02 --dest_mac=02:00:00:00:00:01"
	rawPorts = " --dest_ip=10.0.0.1 --source_ip=10.0.0.2 --dest_port=5000 --source_port=6000"
)

var stockPrograms = []stockProgram{{"ib_write_bw"}, {"ib_write_lat"}, {"ib_read_bw"}, {"ib_read_lat"},
	{"ib_send_bw"}, {"ib_send_lat"}, {"ib_atomic_bw"}, {"ib_atomic_lat"}, {"raw_ethernet_bw" + rawEnds},
	{"raw_ethernet_lat" + rawEnds}, {"raw_ethernet_bw" + rawEnds + rawPorts}, {"raw_ethernet_lat" + rawEnds + rawPorts}}

func (p stockProgram) words() []string { return strings.Fields(p.line) }

// raw reports whether the program sends frames, and connects to no server.
func (p stockProgram) raw() bool { return strings.HasPrefix(p.line, rawEthernet) }

// has reports whether all lines have an option.
func (p stockProgram) has(name string) bool {
	return slices.ContainsFunc(p.words(), func(w string) bool { w, _, _ = strings.Cut(w, "="); return w == "--"+name })
}

// with returns a client's command line.
func (p stockProgram) with(line string) []string {
	words := append(p.words(), strings.Fields(line)...)
	if !p.raw() {
		words = append(words, "server")
	}
	return words
}

// perftestValues has the values that the options of perftest are given, alone and in pairs of two, or only alone.
var perftestValues = map[string]struct{ paired, alone string }{
	"port":          {"20000", "1 65535 0x4000 x"},
	"ib-dev":        {"mlx5_0", ""},
	"ib-port":       {"1", "2 255 0 x"},
	"mtu":           {"1024", "256 512 2048 4096 0 1000 9000 x"},
	"size":          {"64 4096", "1 2 8 1K 64K 8M 2147483647 0 -1 3000000000"},
	"iters":         {"20", "5 7 1000 30000 100000000 4 0 -5 x"},
	"tx-depth":      {"16", "1 128 15000 15001 0 -1 x"},
	"qp-timeout":    {"10", "0 14 31 x"},
	"sl":            {"1", "0 15 16 x"},
	"gid-index":     {"0", "3 64 65 x"},
	"connection":    {"RC UC UD XRC DC SRD", "RawEth rc TCP"},
	"qp":            {"2", "1 8 16384 0 16385 -1 x"},
	"vector":        {"1", "0 2048 2049 -1 x"},
	"inline_size":   {"64", "0 1 220 912 913 -1 x"},
	"outs":          {"4", "1 16 128 x"},
	"tos":           {"5", "0 255 256 -1 x"},
	"hop_limit":     {"64 5", "0 255 256 x"},
	"MGID":          {"255:1:0:0:0:0:2:201:133:0:0:0:0:0:0:5", ""},
	"rx-depth":      {"1 16", "512 15000 16384 16385 0 x"},
	"cq-mod":        {"4", "1 100 1024 1025 0 -1 x"},
	"atomic_type":   {"FETCH_AND_ADD CMP_AND_SWAP", "SWAP"},
	"post_list":     {"4", "1 2 128 x"},
	"duration":      {"5", "1 60 0 -1 x"},
	"margin":        {"1", "0 2 3 -1 x"},
	"source_mac":    {"02:00:00:00:00:02", "1:2 02-00-00-00-00-02 zz:00:00:00:00:02"},
	"dest_mac":      {"02:00:00:00:00:01", "1:2 zz:00:00:00:00:01"},
	"local_mac":     {"02:00:00:00:00:02", "1:2"},
	"remote_mac":    {"02:00:00:00:00:01", "1:2"},
	"dest_ip":       {"10.0.0.1", "::1 x"},
	"source_ip":     {"10.0.0.2", "::1 x"},
	"local_ip":      {"10.0.0.2", "::1 x"},
	"remote_ip":     {"10.0.0.1", "::1 x"},
	"dest_port":     {"5000", "1 65535 x"},
	"source_port":   {"6000", "1 65535 x"},
	"local_port":    {"6000", "1 65535 x"},
	"remote_port":   {"5000", "1 65535 x"},
	"ethertype":     {"0x0800", "0x88b5 0x0000 5"},
	"limit_bw":      {"1", "0.5 100 -1"},
	"limit_msgrate": {"1", "0.5 100 -1"},

	"report-counters":        {"counters/port_xmit_data", "counters/port_xmit_data,hw_counters/out_of_buffer"},
	"force-link":             {"Ethernet", "IB InfiniBand x"},
	"pkey_index":             {"0", "1 x"},
	"inline_recv":            {"64", "0 x"},
	"burst_size":             {"8", "0 1 -1 x"},
	"typical_pkt_size":       {"64", "0 65535 65536 x"},
	"rate_limit":             {"10", "2.5 100 0 -1 x"},
	"rate_limit_type":        {"SW HW PP", "x"},
	"rate_units":             {"g M p", "x"},
	"output":                 {"bandwidth message_rate latency", "x"},
	"out_json_file":          {"/tmp/perftest.json", ""},
	"latency_gap":            {"5", "0 1000 -1 x"},
	"flow_label":             {"5", "0 1048575 -1 x"},
	"retry_count":            {"5", "0 7 -1 x"},
	"mmap":                   {"/tmp/perftest.mmap", ""},
	"mmap-offset":            {"0", "4096 x"},
	"dlid":                   {"3", "0 x"},
	"tclass":                 {"96", "0 255 x"},
	"wait_destroy":           {"1", "0 x"},
	"flows":                  {"2", "1 0 x"},
	"flows_burst":            {"2", "1 0 x"},
	"reply_every":            {"1", "2 x"},
	"vlan_pcp":               {"1 8", "0 7 9 x"},
	"recv_post_list":         {"4", "1 2 x"},
	"aes_block_size":         {"520", "512 4096 x"},
	"data_enc_keys_number":   {"2", "x"},
	"kek_path":               {"/tmp/kek", ""},
	"credentials_path":       {"/tmp/credentials", ""},
	"data_enc_key_app_path":  {"/tmp/app", ""},
	"log_dci_streams":        {"2", "0 x"},
	"log_active_dci_streams": {"2", "0 x"},

	"use_cuda":          {"0", "-1 x"},
	"use_cuda_bus_id":   {"0000:3b:00.0", ""},
	"use_rocm":          {"0", ""},
	"use_neuron":        {"0", ""},
	"use_hl":            {"0", ""},
	"use_mlu":           {"0", ""},
	"payload_file_path": {"testdata/payload.txt", ""},
	"bind_source_ip":    {"10.0.0.2", "::1"},
	"congest_type":      {"DCQCN", "x"},

	"cqe_poll":        {"8", "1 64 65535 0 65536"},
	"ph":              {"1", "0 3 4"},
	"pin_cores":       {"0", "0-1 x"},
	"numa_node":       {"0", "x"},
	"cuda_mem_type":   {"0", ""},
	"use_musa":        {"0", ""},
	"use_musa_bus_id": {"0000:3b:00.0", ""},
}

// outcomes is what a program takes. A line of two options is taken if each of them is taken alone, except for those
// that are named.
type outcomes struct {
	program        string
	taken, refused []string // one option
	apart          []string // two, which are refused though each is taken
	together       []string // two, which are taken though one is refused alone
}

// writeOutcomes writes a file: what is the same for all programs first.
func writeOutcomes(w io.Writer, all []*outcomes) {
	common := &outcomes{program: every}
	same := func(of func(*outcomes) *[]string) {
		list := slices.Clone(*of(all[0]))
		for _, o := range all[1:] {
			list = slices.DeleteFunc(list, func(l string) bool { return !slices.Contains(*of(o), l) })
		}
		*of(common) = list
		for _, o := range all {
			*of(o) = slices.DeleteFunc(*of(o), func(l string) bool { return slices.Contains(list, l) })
		}
	}
	same(func(o *outcomes) *[]string { return &o.taken })
	same(func(o *outcomes) *[]string { return &o.refused })
	for _, o := range append([]*outcomes{common}, all...) {
		o.write(w)
	}
}

func (o *outcomes) write(w io.Writer) {
	fmt.Fprintf(w, "\nprogram %s\n", o.program)
	list := func(what string, lines []string) {
		const columns = 118
		line := what + ":"
		for _, l := range lines {
			if len(line)+1+len(l) > columns {
				fmt.Fprintln(w, line)
				line = what + ":"
			}
			line += " " + l
		}
		if line != what+":" {
			fmt.Fprintln(w, line)
		}
	}
	list("taken", o.taken)
	list("refused", o.refused)
	group := func(what string, pairs []string) {
		with := map[string][]string{}
		var order []string
		for _, p := range pairs {
			a, b, _ := strings.Cut(p, " ")
			if with[a] == nil {
				order = append(order, a)
			}
			with[a] = append(with[a], b)
		}
		for _, a := range order {
			list(what+" "+a, with[a])
		}
	}
	group("refused with", o.apart)
	group("taken with", o.together)
}

// every is the name under which a file has what is the same for all programs.
const every = "every"

// readOutcomes reads what a release takes. The file of 6.29 has what it adds to 6.24.
func readOutcomes(t *testing.T, release string) (list []*outcomes) {
	byName := map[string]*outcomes{}
	for _, p := range stockPrograms {
		byName[p.line] = &outcomes{program: p.line}
		list = append(list, byName[p.line])
	}
	if release == "6.29" {
		for _, o := range readOutcomes(t, "6.24") {
			*byName[o.program] = *o
		}
	}
	f, err := os.Open(filepath.Join(takesFolder, release+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var to []*outcomes
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		if program, ok := strings.CutPrefix(line, "program "); ok {
			if to = list; program != every {
				to = []*outcomes{byName[program]}
			}
			continue
		}
		what, values, ok := strings.Cut(line, ": ")
		if !ok || to == nil {
			continue
		}
		for _, o := range to {
			o.add(what, strings.Fields(values))
		}
	}
	for _, o := range list { // what a later release takes or refuses otherwise
		o.refused = slices.DeleteFunc(o.refused, func(l string) bool { return slices.Contains(o.taken, l) })
	}
	return list
}

// add adds a line of the file.
func (o *outcomes) add(what string, words []string) {
	first, apart := strings.CutPrefix(what, "refused with ")
	second, together := strings.CutPrefix(what, "taken with ")
	for _, w := range words {
		switch {
		case what == "taken":
			o.taken = append(o.taken, w)
		case what == "refused":
			o.refused = append(o.refused, w)
		case apart:
			o.apart = append(o.apart, pair(first, w))
		case together:
			o.together = append(o.together, pair(second, w))
		}
	}
}

// pair returns a line of two options, in the order that lines have.
func pair(a, b string) string { return min(a, b) + " " + max(a, b) }

// each calls f with each line, and whether the release takes it.
func (o *outcomes) each(f func(line string, taken bool)) {
	var paired []string
	for _, l := range o.taken {
		f(l, true)
	}
	for _, l := range o.refused {
		f(l, false)
	}
	apart, together := setOf(o.apart), setOf(o.together)
	for _, l := range slices.Concat(o.taken, o.refused) {
		if name, value, valued := strings.Cut(strings.TrimPrefix(l, "--"), "="); !valued ||
			slices.Contains(strings.Fields(perftestValues[name].paired), value) {
			paired = append(paired, l)
		}
	}
	slices.Sort(paired)
	taken := setOf(o.taken)
	for i, a := range paired {
		for _, b := range paired[i+1:] {
			if optionOf(a) == optionOf(b) {
				continue
			}
			l := pair(a, b)
			f(l, (taken[a] && taken[b] && !apart[l]) || together[l])
		}
	}
}

func optionOf(word string) string { word, _, _ = strings.Cut(word, "="); return word }

func setOf(list []string) map[string]bool {
	m := map[string]bool{}
	for _, l := range list {
		m[l] = true
	}
	return m
}

// TestPerftestTakes: each command line of one and of two options that perftest takes is taken under the name of its
// program, and a single option that it refuses is refused.
func TestPerftestTakes(t *testing.T) {
	type key struct{ program, line string }
	taken := map[key][]string{}
	count := map[string]int{}
	for _, release := range []string{"6.06", "6.24", "6.29"} {
		for _, o := range readOutcomes(t, release) {
			o.each(func(line string, took bool) {
				k := key{o.program, line}
				by := taken[k]
				if took {
					by = append(by, release)
				}
				taken[k] = by
				count[release]++
			})
		}
	}
	lines, differ := 0, map[string]int{}
	for k, by := range taken {
		one := !strings.Contains(k.line, " ")
		if !one && !testutil.Full() && crc32.ChecksumIEEE([]byte(k.program+k.line))%32 != 0 {
			continue // one of 32 pairs
		}
		lines++
		words := stockProgram{k.program}.with(k.line)
		_, err := parsePerftest(slices.Concat(perftestWords(words[0]), words[1:]))
		switch why := takenHere[k.line]; {
		case err != nil && by != nil && refusedHere[k.line] == "":
			t.Errorf("%s %s: %v; perftest %s takes it", words[0], k.line, err, strings.Join(by, " and "))
		case err == nil && by == nil && one && why == "":
			t.Errorf("%s %s: taken; perftest refuses it", words[0], k.line)
		case err == nil && by == nil && one:
			differ[why]++
		case err != nil && by != nil:
			differ[refusedHere[k.line]]++
		}
	}
	t.Logf("lines of each release: %v; %d lines in all, %d parsed", count, len(taken), lines)
	for why, n := range differ {
		t.Logf("%d lines differ: %s", n, why)
	}
}

// refusedHere has why rdmaperf refuses what perftest takes.
var refusedHere = map[string]string{
	"--flow_label=x":  "no number: 6.24 takes it for 0",
	"--flow_label=-1": "no flow label: 6.24 takes it for another one",
}

// takenHere has why rdmaperf takes an option that perftest refuses.
var takenHere = map[string]string{
	"--connection=rc":                "rdmaperf has no capitals",
	"--dest_ip=::1":                  "an IPv6 address without --raw_ipv6",
	"--source_ip=::1":                "an IPv6 address without --raw_ipv6",
	"--local_ip=::1":                 "an IPv6 address without --raw_ipv6",
	"--remote_ip=::1":                "an IPv6 address without --raw_ipv6",
	"--ethertype=5":                  "a number of fewer than four digits",
	"--source_mac=02-00-00-00-00-02": "an Ethernet address with dashes",
	"--events":                       "rdmaperf sleeps also in write bw",
	"--hop_limit=0":                  "no effect",
	"--log_active_dci_streams=2":     "no effect",
	"--sig_offload":                  "no effect",
	"--margin=3":                     "no effect without -D",
	"--margin=-1":                    "no effect without -D",
	"--mmap=/tmp/perftest.mmap":      "rdmaperf has frames in a file",
	"--rate_limit_type=PP":           "rdmaperf has pacing for all transports",
	"--rate_limit_type=SW":           "no effect without a rate",
	"--unsolicited_write":            "no effect",
	"--use_cuda=0":                   "Debian's perftest has no CUDA",
	"--use_cuda_bus_id=0000:3b:00.0": "Debian's perftest has no CUDA",
	"--tph_mem=vm":                   "no effect",
	"--cpu_id=1":                     "no effect",
	"--gpu_touch=once":               "no effect",
	"--cuda_mem_type=0":              "no effect",
	"--use_cuda_pcie_mapping":        "no effect",
	"--local_ip=10.0.0.2":            mixed,
	"--remote_ip=10.0.0.1":           mixed,
	"--local_mac=02:00:00:00:00:02":  mixed,
	"--remote_mac=02:00:00:00:00:01": mixed,
	"--local_port=1":                 mixed,
	"--local_port=6000":              mixed,
	"--local_port=65535":             mixed,
	"--remote_port=1":                mixed,
	"--remote_port=5000":             mixed,
	"--remote_port=65535":            mixed,
}

const mixed = "rdmaperf takes --local and --remote next to -B and -E"

// TestPerftestEffects: what options of perftest do together is what they do there, or is named.
func TestPerftestEffects(t *testing.T) {
	raw := func(client bool) string {
		if client {
			return "raw_ethernet_bw --client -B 02:00:00:00:00:02 "
		}
		return "raw_ethernet_bw --server -B 02:00:00:00:00:01 "
	}
	const to = "-E 02:00:00:00:00:01 "
	for _, tc := range []struct {
		line  string
		notes string // the options that are named
		check func(p *plan.Plan) bool
	}{
		{"ib_write_bw -D 3 -n 100 s", "--iters (-n)",
			func(p *plan.Plan) bool { return p.Load.Duration == 3*time.Second && p.Load.Iters == 0 }},
		{"ib_write_bw -f 1 s", "--margin (-f)", func(p *plan.Plan) bool { return p.Load.Iters == 5000 && p.ByCount() }},
		{"ib_read_lat --report-both --use_old_post_send s", "--report-both --use-old-post-send",
			func(p *plan.Plan) bool { return !p.Report.ReportBoth }},
		{"ib_write_bw --use_old_post_send --use_old_post_send s", "--use-old-post-send",
			func(p *plan.Plan) bool { return true }},
		{"ib_write_bw -a -s 4096 s", "--size (-s)", func(p *plan.Plan) bool {
			return p.Load.All &&
				p.Load.Size == 8<<20
		}},
		{"ib_write_bw -m 9000 s", "--mtu (-m)", func(p *plan.Plan) bool { return p.Link.MTU == 0 }},
		{"ib_write_bw --run_infinitely -n 100 -a s", "--all (-a) --iters (-n)",
			func(p *plan.Plan) bool { return p.Load.Infinite && !p.Load.All }},
		{"ib_send_bw -g -c RC s", "--connection (-c)",
			func(p *plan.Plan) bool { return p.Multicast && p.Transport == wire.UD }},
		{"ib_send_bw --rate_limit=10 --rate_limit_type=HW --burst_size=4 s", "--rate-limit-type",
			func(p *plan.Plan) bool {
				return p.Load.Rate.Limit == 10 && !p.Load.Rate.Hardware && p.Load.Rate.Burst == 4
			}},
		{"ib_send_lat --rate_limit=10 --burst_size=4 s", "--burst-size --rate-limit",
			func(p *plan.Plan) bool { return p.Load.Rate.Limit == 0 && p.Load.Rate.Burst == 0 }},
		{"ib_send_bw --vlan_pcp=3 -B 02:00:00:00:00:02 s", "--source-mac (-B) --vlan-pcp",
			func(p *plan.Plan) bool { return p.Frames == plan.Frames{} }},
		{"ib_send_bw -R --use-srq -S 3 s", "--sl (-S) --use-srq",
			func(p *plan.Plan) bool { return p.Peer.RDMACM && !p.Queues.UseSRQ }},
		{"ib_write_bw -w 0 s", "--limit-bw (-w)", func(p *plan.Plan) bool { return true }},
		{"ib_write_bw --mmap=x --use_hugepages s", "--use-hugepages",
			func(p *plan.Plan) bool { return p.Memory.Kind == plan.File }},

		{raw(true) + to + "-c UD s", "--connection (-c) SERVER",
			func(p *plan.Plan) bool { return p.Transport == wire.RawEth && p.Client() }},
		{raw(true) + to, "", func(p *plan.Plan) bool { return p.Load.Size == 1518 }},
		{raw(true) + to + "-s 8", "size", func(p *plan.Plan) bool { return p.Load.Size == 64 }},
		{raw(true) + to + "-s 9000", "size", func(p *plan.Plan) bool { return p.Load.Size == 1518 }},
		{raw(true) + to + "-s 9000 -m 9000", "", func(p *plan.Plan) bool { return p.Load.Size == 9000 }},
		{raw(true) + to + "-m 1024", "", func(p *plan.Plan) bool { return p.Load.Size == 1024 }},
		{raw(true) + to + "--reversed", "", func(p *plan.Plan) bool { return !p.Client() && !p.Load.Reversed }},
		{raw(true) + to + "-J 10.0.0.1", "",
			func(p *plan.Plan) bool { return p.Frames.Client == netip.IPv4Unspecified() }},
		{raw(true) + to + "--vlan_pcp=3", "",
			func(p *plan.Plan) bool { return p.Frames.VLAN && p.Frames.Priority == 3 }},
		{raw(true) + "--raw_mcast -J 10.129.2.3 -j 10.0.0.2", "",
			func(p *plan.Plan) bool { return p.Frames.Peer == [6]byte{1, 0, 0x5e, 1, 2, 3} }},
		{raw(false) + "--raw_mcast -J 10.129.2.3 -j 10.0.0.2", "",
			func(p *plan.Plan) bool { return p.Frames.Own == [6]byte{1, 0, 0x5e, 1, 2, 3} }},
		{raw(true) + to + "--local_ip=10.0.0.2 --remote_ip=10.0.0.1 --local_port=6 --remote_port=5", "",
			func(p *plan.Plan) bool {
				f := &p.Frames
				return f.Server.String() == "10.0.0.1" && f.Client.String() == "10.0.0.2" && f.ServerPort == 5 &&
					f.ClientPort == 6
			}},
		{raw(false) + "--local_ip=10.0.0.1 --remote_ip=10.0.0.2 --local_port=5 --remote_port=6", "",
			func(p *plan.Plan) bool {
				f := &p.Frames
				return f.Server.String() == "10.0.0.1" && f.Client.String() == "10.0.0.2" && f.ServerPort == 5 &&
					f.ClientPort == 6
			}},
	} {
		words := strings.Fields(tc.line)
		o, err := parsePerftest(slices.Concat(perftestWords(words[0]), words[1:]))
		if err != nil {
			t.Errorf("%s: %v", tc.line, err)
			continue
		}
		var named []string
		for _, n := range o.notes {
			name, _, _ := strings.Cut(n, " has no effect here: ")
			if strings.HasPrefix(name, "size ") {
				name = "size"
			}
			named = append(named, name)
		}
		slices.Sort(named)
		if got := strings.Join(named, " "); got != tc.notes || !tc.check(&o.plan) {
			t.Errorf("%s: notes %q, want of %q; %+v", tc.line, o.notes, tc.notes, o.plan)
		}
	}
}

// TestPerftestNotes: under perftest's name an option without effect is named once, on standard error, and what
// perftest refuses is wrong usage.
func TestPerftestNotes(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"ib_write_bw -D 1 -n 100 -d nothere": {exitFailure,
			"rdmaperf: --iters (-n) has no effect here: give iterations (-n) or a duration (-D), not both\n"},
		"ib_write_bw --wait_destroy=1 -d nothere": {exitFailure,
			"rdmaperf: --wait-destroy has no effect here: rdmaperf destroys nothing before the peer is done\n"},
		"ib_write_bw -n 4":            {exitUsage, "(-n) 4; perftest allows 5 to"},
		"ib_write_bw --cq-mod=0":      {exitUsage, "0 < 1"},
		"ib_write_bw -Q 1025":         {exitUsage, "perftest allows 1 to 1024"},
		"ib_write_bw --nothere":       {exitUsage, "unknown flag"},
		"ib_write_bw -D 1 -a":         {exitUsage, "not with all sizes"},
		"rdmaperf write bw -D 1 -n 5": {exitUsage, "not both"},
	} {
		words := strings.Fields(line)
		var out, diag bytes.Buffer
		rc := runAs(t.Context(), "/usr/local/bin/"+words[0], words[1:], &out, &diag)
		if rc != want.code || strings.Count(diag.String(), want.says) != 1 ||
			strings.Contains(out.String(), "effect") {
			t.Errorf("%s: exit code %d, want %d; stdout %q, stderr %q, want %q", line, rc, want.code, &out, &diag,
				want.says)
		}
	}
}
