package command

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/buildinfo"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		line  string
		check func(*options) bool
	}{
		{"write bw", func(o *options) bool {
			c := o.plan
			return c.Verb == wire.Write && c.Metric == wire.Bandwidth && !c.Client() && c.Peer.Port == 18515 &&
				c.Link.IBPort == 1 &&
				c.Load.Size == 65536 && c.Load.Iters == 5000 && c.Queues.TxDepth == 128 && c.Link.QPTimeout == 14 &&
				c.Link.GIDIndex == plan.Auto &&
				c.Queues.Inline == plan.Auto && c.Peer.Timeout == 30*time.Second &&
				c.Report.LatencyDef == plan.RoundTrip
		}},
		{"write bw -x -5", func(o *options) bool { return o.plan.Link.GIDIndex == plan.Auto }},
		{"send lat 10.8.0.1", func(o *options) bool {
			c := o.plan
			return c.Verb == wire.Send && c.Metric == wire.Latency && c.Peer.Host == "10.8.0.1" && c.Load.Size == 2 &&
				c.Queues.RxDepth == 512
		}},
		{"-d mlx5_0 -i 2 -x 3 read bw -s 4K -n 50 -q 2 -t 16 -p 1234 -u 10 -S 3 -m 2048 -b -o 4 --tclass 106 host",
			func(o *options) bool {
				c := o.plan
				return c.Link.Device == "mlx5_0" && c.Link.IBPort == 2 && c.Link.GIDIndex == 3 && c.Load.Size == 4096 &&
					c.Load.Iters == 50 &&
					c.Queues.QPs == 2 &&
					c.Queues.TxDepth == 16 && c.Peer.Port == 1234 && c.Link.QPTimeout == 10 && c.Link.SL == 3 &&
					c.Link.MTU == 2048 &&
					c.Load.Bidirectional &&
					c.Link.OutReads == 4 && c.Link.TClass == 106 && c.Peer.Host == "host"
			}},
		{"write bw -s1M -l 4 -n 40 -Q2 -I 64 -N --report_gbits", func(o *options) bool {
			c := o.plan
			return c.Load.Size == 1<<20 && c.Queues.PostList == 4 && c.Queues.CQMod == 2 && c.Queues.Inline == 64 &&
				c.Report.NoPeak && c.Report.Gbits
		}},
		{"write bw --post_list=4 --cq-mod=4 --inline_size=0 --ib_dev=a --noPeak -F -n 40", func(o *options) bool {
			c := o.plan
			return c.Queues.PostList == 4 && c.Queues.CQMod == 4 && c.Queues.Inline == 0 && c.Link.Device == "a" &&
				c.Report.NoPeak
		}},
		{"write bw [fe80::1]", func(o *options) bool { return o.plan.Peer.Host == "fe80::1" }},
		{"write bw -a -n 5", func(o *options) bool { return o.plan.Load.All && o.plan.Load.Size == 8<<20 }},
		{"write bw -D 2 -f 0.5", func(o *options) bool {
			return o.plan.Load.Duration == 2*time.Second && o.plan.Load.Margin == 500*time.Millisecond
		}},
		{"write lat -D 1500ms --lat-def cqe --json -H", func(o *options) bool {
			return o.plan.Load.Duration == 1500*time.Millisecond && o.plan.Report.LatencyDef == plan.ToCompletion &&
				o.format == formatJSON &&
				o.histogram
		}},
		{"write bw -R -d a -x 3 host", func(o *options) bool {
			return o.plan.Peer.RDMACM &&
				o.plan.Link.GIDIndex == 3
		}},
		{"write bw -R -T 104", func(o *options) bool { return o.plan.Link.TClass == 104 }},
		{"write bw --rdma_cm", func(o *options) bool { return o.plan.Peer.RDMACM }},
		{"send bw -z -c XRC --bind-source-ip ::1 fe80::2", func(o *options) bool {
			return o.plan.Peer.CMExchange && o.plan.ByCM() && !o.plan.Peer.RDMACM
		}},
		{"write bw -R --comm_rdma_cm", func(o *options) bool { return o.plan.Peer.RDMACM && !o.plan.Peer.CMExchange }},
		{"write bw --ipv6 --ipv6-addr host", func(o *options) bool { return o.plan.Link.GIDv6 && o.plan.Peer.IPv6 }},
		{"write bw --payload_file_path=testdata/payload.txt", func(o *options) bool {
			return slices.Equal(o.plan.Payload, []byte{0, 1, 2, 3, 4, 5, 6, 7}) && o.plan.Params().Payload != 0
		}},
		{"write bw -w 10 -y 2 --report-gbits --csv", func(o *options) bool {
			return o.limits == measure.Limits{MinBits: 10e9, MinRate: 2e6} && o.format == formatCSV
		}},
		{"write bw -w 10", func(o *options) bool { return o.limits.MinBits == 10*8<<20 }},
		{"send lat --max_lat 3 --max-p99 7.5 --out_json", func(o *options) bool {
			return o.limits == measure.Limits{MaxP50Ns: 3000, MaxP99Ns: 7500} && o.jsonFile == "perftest_out.json"
		}},
		{"write bw -a --min-bw 180@8M", func(o *options) bool {
			return o.limits == measure.Limits{EachBits: 180e9, EachOf: 8 << 20}
		}},
		{"write bw --report_gbit --run --bidir --noP", func(o *options) bool {
			return o.plan.Report.Gbits && o.plan.Load.Infinite && o.plan.Load.Bidirectional && o.plan.Report.NoPeak
		}},
		{"write bw --source_ip=10.8.0.2 h", func(o *options) bool { return o.plan.Peer.Bind == "10.8.0.2" }},
		{"write bw -R --retry_count=0 h", func(o *options) bool { return o.plan.Peer.RetryCount == 0 }},
		{"write bw -R h", func(o *options) bool { return o.plan.Peer.RetryCount == 7 }},
		{"write bw --rate-limit 5", func(o *options) bool { return o.plan.Load.Rate == plan.Rate{} }},
		{"send lat --out_json --out_json_file=x", func(o *options) bool { return o.jsonFile == "x" }},
		{"write bw --run_infinitely", func(o *options) bool {
			return o.plan.Load.Infinite && o.plan.Load.Interval == 5*time.Second && !o.plan.ByCount()
		}},
		{"write bw --run_infinitely -D 2", func(o *options) bool {
			return o.plan.Load.Infinite && o.plan.Load.Interval == 2*time.Second && o.plan.Load.Duration == 0
		}},
		{"write bw --rate_limit=2 --rate_units=g --burst_size=32 a", func(o *options) bool {
			return o.plan.Load.Rate == plan.Rate{Limit: 2, Unit: plan.GbitPerSecond, Burst: 32} &&
				o.plan.Queues.CQMod == 1 &&
				o.plan.Load.Rate.Messages(1000) == 250000
		}},
		{"write bw --sizes 64,4K,1:9:x3,1K:2K:+512", func(o *options) bool {
			return slices.Equal(o.plan.Sizes(), []uint64{64, 4096, 1, 3, 9, 1024, 1536, 2048}) &&
				o.plan.Load.Size == 4096
		}},
		{"write lat --sizes 2:8M", func(o *options) bool { return len(o.plan.Sizes()) == 23 }},
		{"send bw --recv_post_list=16 --cqe_poll=8 --flow_label=77", func(o *options) bool {
			return o.plan.Queues.RecvList == 16 && o.plan.Queues.PollMax == 8 && o.plan.FlowLabel(1) == 77
		}},
		{"write bw -e", func(o *options) bool { return o.plan.Queues.Events }},
		{"write bw --reversed host", func(o *options) bool {
			return o.plan.Connects() && !o.plan.Client() && !o.plan.Sends() && o.plan.Lands()
		}},
		{"read lat --reversed --max-lat 5", func(o *options) bool { return o.plan.Sends() && !o.plan.Connects() }},
		{"write bw --perform_warm_up -O -D 2 --report-per-port", func(o *options) bool {
			return o.plan.Load.WarmUp && o.plan.Report.PerPort && o.plan.Queues.QPs == 2
		}},
		{"send bw --perform_warm_up", func(o *options) bool { return !o.plan.Load.WarmUp && len(o.notes) == 1 }},
		{"write lat --perform-warm-up", func(o *options) bool { return !o.plan.Load.WarmUp && len(o.notes) == 1 }},
		{"write bw --write-with-imm --perform-warm-up", func(o *options) bool {
			return !o.plan.Load.WarmUp && len(o.notes) == 1
		}},
		{"send lat --latency_gap=20 -U", func(o *options) bool {
			return o.plan.Load.Gap == 20*time.Microsecond && o.plan.Report.Unsorted
		}},
		{"send lat --latency-gap 5ms --report_unsorted", func(o *options) bool {
			return o.plan.Load.Gap == 5*time.Millisecond && o.plan.Report.Unsorted
		}},
		{"write bw --numa_node=1", func(o *options) bool { return o.plan.Place.Node == 1 }},
		{"write bw -q 3 --flow_label=5,0x10", func(o *options) bool {
			return o.plan.FlowLabel(0) == 5 && o.plan.FlowLabel(1) == 16 && o.plan.FlowLabel(2) == 5
		}},
		{"write bw -W counters/port_xmit_data,hw_counters/out_of_buffer", func(o *options) bool {
			return slices.Equal(o.plan.Report.CounterNames, []string{"port_xmit_data", "out_of_buffer"})
		}},
		{"write bw --output=message_rate --ipv6-addr", func(o *options) bool { return o.only == "message_rate" }},
		{"write bw", func(o *options) bool { return o.plan.Memory == plan.Memory{} && o.plan.Relaxed() }},
		{"write lat", func(o *options) bool { return !o.plan.Relaxed() }},
		{"send lat --disable_pcie_relaxed --use_hugepages --odp", func(o *options) bool {
			return o.plan.Memory == plan.Memory{Kind: plan.HugePages, OnDemand: true, Ordered: true} &&
				!o.plan.Relaxed()
		}},
		{"write bw --mmap=a --mmap-offset=4096", func(o *options) bool {
			return o.plan.Memory == plan.Memory{Kind: plan.File, File: "a", Offset: 4096}
		}},
		{"send lat --use_cuda=3 --use_cuda_dmabuf --use_data_direct", func(o *options) bool {
			return o.plan.Memory == plan.Memory{Kind: plan.CUDA, GPU: 3, Dmabuf: true, DataDirect: true} &&
				o.plan.Queues.Inline == 0
		}},
		{"write bw --use-cuda-bus-id 0000:3b:00.0 --odp-implicit=false", func(o *options) bool {
			return o.plan.Memory == plan.Memory{Kind: plan.CUDA, BusID: "0000:3b:00.0"}
		}},
		{"write bw --disable_numa", func(o *options) bool { return o.plan.Place.NoPin }},
		{"read lat --use-null-mr --pin_cores=2-5,8", func(o *options) bool {
			return o.plan.Memory == plan.Memory{Null: true} && slices.Equal(o.plan.Place.CPUs, []int{2, 3, 4, 5, 8})
		}},
		{"read lat -H host", func(o *options) bool { return o.histogram }},
		{"write bw -u 0 -c rc --verify", func(o *options) bool { return o.plan.Link.QPTimeout == 0 && o.plan.Verify }},
	} {
		o, err := parse(strings.Fields(tc.line))
		if err != nil {
			t.Errorf("rdmaperf %s: %v", tc.line, err)
			continue
		}
		if !tc.check(o) {
			t.Errorf("rdmaperf %s: %+v", tc.line, o.plan)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	const raw = "send bw -c RawEth -B 02:00:00:00:00:01 "
	for line, want := range map[string]string{
		"":                             "no command",
		"write":                        "no command",
		"docter":                       `unknown command "docter"`,
		"completion tcsh":              `no completion for "tcsh"; shells: bash, zsh, fish, powershell`,
		"completion bash x":            "unknown command",
		"version x":                    "unknown command",
		"bw write":                     `verb "bw"`,
		"write speed":                  `metric "speed"`,
		"write bw a b":                 "1 arguments too many: b",
		"write bw 10.0.0.1:99":         `server "10.0.0.1:99": give the TCP port with -p`,
		"write bw a,[::1]:99":          "give the TCP port with -p",
		"stream bw a:99":               "give the TCP port with -p",
		"write bw -s 0":                "0 bytes",
		"write bw -s -1":               "not a number of bytes",
		"write bw -s 4T":               "not a number of bytes",
		"write bw -s 99999999999999G":  "not a number of bytes",
		"write bw -n 0":                "0 < 5",
		"write bw -n 4":                "4 < 5",
		"write bw -n x":                "x",
		"write bw -t 0":                "(-t) 0 < 1",
		"send bw -r 0":                 "(-r) 0 < 1",
		"write bw -q 0":                "queue pairs",
		"write bw -i 0":                "device port",
		"write bw -i 256":              "256",
		"write bw -p 70000":            "tcp port",
		"write bw -p 0 host":           "tcp port",
		"write bw --agent 5":           "--agent 5",
		"write bw --agent 0 host":      "--agent 0",
		"write bw --agent 5 -R host":   "neither -R",
		"write bw --token-file x host": "needs --agent",
		"write bw -c UD":               "only for send",
		"write bw -c DC -R":            "only RC and UD",
		"write bw -c RawEth":           "only for send",
		"send bw -c RawEth -B 1:2":     "not an Ethernet address",
		"send bw -c RawEth":            "own address (-B)",
		"send lat -c RawEth -B 02:00:00:00:00:01":                  "address of the peer (-E)",
		"send bw -c RawEth -B 02:00:00:00:00:01 --client":          "address of the peer (-E)",
		"send bw -c RawEth -B 02:00:00:00:00:01 host":              "does not connect",
		"send bw -c RawEth -B 02:00:00:00:00:01 --server --client": "not both",
		"send bw -c RawEth -B 02:00:00:00:00:01 -s 63":             "63 < 64",
		"send bw -c RawEth -B 02:00:00:00:00:01 -a":                "cannot synchronize between",
		"send bw -c RawEth -B 02:00:00:00:00:01 -R":                "only RC and UD",
		"send bw -c RawEth -B 02:00:00:00:00:01 -x 1":              "no GIDs",
		"send bw -c RawEth -B 02:00:00:00:00:01 -J 10.0.0.1":       "give both",
		"send bw -c RawEth -B 02:00:00:00:00:01 -J x":              "unable to parse IP",
		"send bw -c RawEth -B 02:00:00:00:00:01 -K 5":              "give both",
		"send bw -c RawEth -B 02:00:00:00:00:01 -K 5 -k 6":         "also give the IP addresses",
		"send bw -c RawEth -B 02:00:00:00:00:01 -K 70000":          "70000",
		"send bw -B 02:00:00:00:00:01":                             "only raw Ethernet",
		"atomic bw -c SRD":                                         "has no atomics",
		"send bw -c SRD --use-srq":                                 "its own receive queues",
		"write bw -c SRD -Q 4":                                     "a completion for each message",
		"send bw -c SRD -R":                                        "only RC and UD",
		"send bw -g -c RC":                                         "only for -c UD",
		"send bw -g -b":                                            "both directions",
		"send bw -g -q 2":                                          "allowed: 1",
		"send bw -g -R":                                            "as in perftest",
		"write bw -g":                                              "only for send",
		"send bw -M ff0e::1":                                       "needs multicast",
		"send bw -g -M fe80::1":                                    "no multicast address",
		"send bw -g -M 1:2:3":                                      "neither a GID nor 16 numbers",
		"send bw -g -M 255:1:0:0:0:0:0:0:0:0:0:0:0:0:0:256":        "number 16",
		"send bw --client":                                         "only raw Ethernet",
		"send bw -c XRC -R":                                        "only RC and UD",
		"write bw --use-srq":                                       "only send and --write-with-imm have receives",
		"read bw --write-with-imm":                                 "only for write, not for read",
		"send bw --use-srq -R":                                     "its own receives",
		"send bw --use-srq -r 3 -q 4":                              "3 < 4",
		"send bw -c XRC --verify -q 2":                             "share receives",
		"read bw -c UC":                                            "needs responses",
		"send bw -c UC -R":                                         "only RC and UD",
		"send bw -c UD --verify":                                   "may lose",
		"atomic bw -s 16":                                          "an atomic has 8 bytes",
		"atomic bw -a":                                             "an atomic has 8 bytes",
		"atomic bw -I 8":                                           "sends nothing",
		"atomic bw -A SWAP":                                        "FETCH_AND_ADD",
		"write lat --lat-def rtt":                                  "perftest and cqe",
		"write bw -D x":                                            "not a number of seconds",
		"write bw -D 1e300":                                        "too long",
		"write bw -f 1":                                            "needs a duration",
		"write bw -D 5 -n 5":                                       "not both",
		"write bw --timeout 0":                                     "not positive",
		"write bw --nonsense":                                      "nonsense",
		"write bw -R -m 1024":                                      "the path decides",
		"write bw -R -S 3":                                         "--tclass",
		"write bw -R -u 0":                                         "1 to 31",
		"write bw -R -x 3":                                         "needs a device",
		"write lat -q 2 -l 2":                                      "post list",
		"write bw -H":                                              "only for latency tests",
		"write lat -e":                                             "waits for memory",
		"write bw --json --csv":                                    "not both",
		"write bw -w 0":                                            "above 0",
		"write bw --min-bw -1":                                     "above 0",
		"write bw -y NaN":                                          "above 0",
		"write lat -w 5":                                           "only for bandwidth tests",
		"write bw --max-p99 5":                                     "only for latency tests",
		"read lat --max-lat 5":                                     "to the client",
		"compare a":                                                "1 files",
		"compare --tolerance 100% a b":                             "below 100%",
		"compare --tolerance x a b":                                "below 100%",
		"compare --tolerance -1% a b":                              "below 100%",
		"doctor a b":                                               "2 hosts",
		"doctor a:99":                                              "give the TCP port with -p",
		"doctor --serve a":                                         "give no host",
		"doctor --serve --json":                                    "prints no report",
		"doctor --bind 127.0.0.1":                                  "only with --serve",
		"doctor --serve --reason":                                  "prints no report",
		"doctor --serve --fail-on=error":                           "prints no report",
		"doctor --reason --json":                                   "--reason is one line",
		"doctor --fail-on=note":                                    "want warning or error",
		"doctor -p 0":                                              "0 < 1",
		"doctor -p 65536 a":                                        "65536",
		"selftest a":                                               "on this host alone",
		"selftest -d a,b,c":                                        "3 names",
		"selftest -x 1,2,3":                                        "3 of them",
		"selftest --steps 13":                                      "want 1 to 12",
		"selftest --posts 0":                                       "want a number",
		"selftest --posts 1.5":                                     "want a number",
		"selftest --limit 0":                                       "want 1 to 86400",
		"selftest -i 300":                                          "want 1 to 255",
		"doctor --nonsense":                                        "nonsense",
		"write bw -d a,b -R h":                                     "leads to a device",
		"send bw -c RawEth -d a,b":                                 "raw Ethernet (-c RawEth) has one",
		"write bw -c DC -q 2 --threads 2":                          "its own receives",
		"send bw -c UD -R -q 2 --threads 2":                        "share one CQ",
		"write bw -d a,b h,i,k":                                    "2 devices (-d) and 3 servers",
		"write bw -d a,,b h":                                       "has no name",
		"write bw -d a,b --agent 5 h":                              "serves one connection",
		"write lat -O":                                             "only for bandwidth tests",
		"write bw -O -i 2":                                         "ports 1 and 2",
		"write bw -O -R":                                           "leads to one port",
		"send bw -O -c UD":                                         "use RC or UC",
		"write bw -X 1":                                            "only with events",
		"write bw --report-both":                                   "in both directions (-b)",
		"write bw --rate-limit-type X h":                           "SW, HW and PP",
		"write bw --rate-limit-type HW h":                          "needs a rate",
		"write bw --typical-pkt-size 9 h":                          "--rate-limit-type HW",
		"write bw --typical-pkt-size 0 h":                          "0 < 1",
		"write bw --rate-limit 1 --rate-limit-type HW -a h":        "set for one size",
		"write bw --rate-limit 1 --rate-limit-type HW --typical-pkt-size 65536 h": "1 to 65535",
		"write bw --rate-limit 1 --rate-limit-type HW --rate-units p -s 8 h":      "less than 1 kb/s",
		"write bw --rate-limit 1 --rate-limit-type HW --burst-size 9000 -s 1M h":  "4294967295 bytes",
		"write bw --bind-source-ip x h":                                           "not an IP address",
		"write bw --bind-source-ip ::1 --bind ::1 h":                              "not both",
		"write bw --threads -1":                                                   "1 to 1024",
		"write bw --threads 0":                                                    "0 < 1",
		"write bw -q 4 --threads 3":                                               "4 (-q) is not a multiple",
		"write lat -q 4 --threads 2":                                              "as many as there are threads",
		"write lat -q 4":                                                          "as many as there are threads",
		"send bw -q 2 --threads 2 --use-srq":                                      "its own receives",

		"write bw --agent 5 -z host":                                      "nor -z",
		"write lat --hw-timestamps":                                       "does not show when",
		"write bw --hw-timestamps":                                        "has no completions",
		"write bw --hw-timestamps --csv host":                             "use --json",
		"write bw --hw-timestamps --output bandwidth host":                "or --hw-timestamps",
		"write bw -z -p 0":                                                "tcp port (-p) 0",
		"send bw -z -c RawEth":                                            "do not connect",
		"write bw -z --listen-fd 5":                                       "uses TCP",
		"write bw --ipv6 -x 3":                                            "not both",
		"write bw --ipv6 -R host":                                         "the address decides",
		"send bw --ipv6 -c RawEth":                                        "no GIDs",
		"send bw --ipv6-addr -c RawEth":                                   "do not connect",
		"write bw --ipv6-addr 10.8.0.1":                                   "10.8.0.1 is an IPv4 address",
		"write bw --ipv6-addr --bind 10.8.0.1":                            "10.8.0.1 is an IPv4 address",
		"write bw --payload-file-path nosuch":                             "no such file",
		"write bw --payload-file-path command.go":                         `number 1 is "//"`,
		"write bw --payload-file-path=":                                   "no such file",
		"atomic bw --payload-file-path testdata/payload.txt":              "has no payload",
		"write bw --use-null-mr --payload-file-path testdata/payload.txt": "has no payload",

		"write bw --tclass 300":                    `"300" is not a number from 0 to 255`,
		"write bw --retry-count 3":                 "needs a connection by rdma_cm",
		"write bw -R --retry-count 8":              "0 to 7",
		"write bw -D 0":                            "give a time above 0",
		"write bw --rate-limit 1e300":              "allowed: above 0, below 1e12",
		"write bw --min-bw 1@":                     "not a number of bytes",
		"write bw --min-bw 1@3":                    "does not have that size",
		"write bw --json-file a --out-json-file a": "different files",
		"write bw --sizes 64 -s 4":                 "not both",
		"write bw --sizes 64,":                     "not a number of bytes",
		"write bw --sizes 8:2":                     "starts above its end",
		"write bw --sizes 2:8:x1":                  "x2 to x65535",
		"write bw --sizes 2:8:+0":                  "0 bytes",
		"write bw --sizes 2:8:4":                   "+512",
		"write bw --sizes 2:8::":                   "not a range",
		"write bw --sizes 1:1G:+1":                 "more than 1000 sizes",
		"write bw -T 5":                            "--tclass",
		"write bw -R -T 5 --tclass 5":              "--tclass",
		"write bw --rate-units g":                  "needs a rate",
		"write bw --rate-units x":                  "allowed: M",
		"write bw --rate-limit 0 a":                "--rate-limit 0 < 1",
		"write bw --recv-post-list 0":              "--recv-post-list 0 < 1",
		"write bw --cqe-poll 0":                    "--cqe-poll 0 < 1",
		"write bw --run-infinitely -n5":            "not both",
		"write bw --report-interval 0.01":          "< 100ms",

		"write bw --use-dm --mmap a":                     "give only one of --mmap, --use-dm",
		"write bw --use-cuda 0 --use-cuda-bus-id 0:1:0.": "one of --use-cuda, --use-cuda-bus-id",
		"write bw --mmap a --mr-per-qp -q 2":             "the same byte of the file",
		"write bw --use-cuda -1":                         "(--use-cuda) -1 is negative",
		"write bw --use-cuda x":                          "invalid",
		"write bw --use-cuda-bus-id=":                    "--use-cuda-bus-id is empty",
		"write bw --use-cuda-dmabuf":                     "give --use-cuda or --use-cuda-bus-id",
		"write bw --use-cuda 0 --use-data-direct":        "needs a dma-buf (--use-cuda-dmabuf)",
		"write bw --mmap=":                               "--mmap is empty",
		"write bw --mmap-offset 5":                       "needs a file (--mmap)",
		"write bw --mmap a --mmap-offset -5":             "(--mmap-offset) -5",
		"write bw --use-dm --odp":                        "device memory has no pages",
		"write bw --use-cuda 1 --odp-implicit":           "cuda has no pages",
		"send bw -c UD -R --use-dm":                      "out of reach",
		"write lat --use-dm":                             "use send lat",
		"send lat --use-cuda 0 -I 8":                     "past the cuda",
		"write bw --use-null-mr -I 8":                    "past the null MR",
		"send bw --use-null-mr":                          "needs what it sends",
		"write lat --use-null-mr":                        "needs what it sends",
		"atomic lat --use-null-mr":                       "needs what it sends",
		"write bw --use-null-mr --verify":                "has no payload",
		"write bw --use-null-mr --use-dm":                "not with device memory",
		"write bw --cpus=":                               "not a list of CPUs",
		"write bw --cpus 3-1":                            "not a list of CPUs",
		"write bw --cpus 99999999":                       "not a list of CPUs",
		"write bw --cpus 0 --no-pin":                     "not both",

		"send bw -c RawEth -B 02:00:00:00:00:01 -b -D 2":      "cannot notify each other",
		"send bw -c RawEth -B 02:00:00:00:00:01 -q 2":         "tells their frames apart by ports",
		raw + "-J ::1 -j 10.0.0.1":                            "both IPv6",
		raw + "--tcp":                                         "needs ports",
		raw + "--vlan-en --vlan-pcp 9":                        "0 to 7",
		raw + "--flows 2":                                     "by which they differ",
		raw + "--flows 0":                                     "--flows 0 < 1",
		raw + "--flows 99999":                                 "1 to 16384 frames",
		raw + "--flows-burst 2":                               "needs flows (--flows)",
		raw + "-L 0":                                          "(-L) 0 < 1",
		raw + "-L 256":                                        "256",
		raw + "--raw-ipv6 -J 10.0.0.1 -j 10.0.0.2":            "needs IPv6 addresses",
		raw + "-J 1.1.1.1 -j 1.1.1.2 -K 65534 -k 5 --flows 3": "beyond 65535",
		raw + "-J 1.1.1.1 -j 1.1.1.2 -K 5 -k 5 -q 2":          "as many --threads",
		raw + "-J ::1 -j ::2 -K 5 -k 5 --tcp -s 77":           "77 < 78, the headers",
		"send lat -c RawEth -B 02:00:00:00:00:01 -E 02:00:00:00:00:02 --vlan-en --vlan-pcp 8": "only for bandwidth",
		raw + "--send-with-imm":                             "RawEth) has none",
		"send bw --promiscuous":                             "only raw Ethernet",
		"send bw --reversed -c RawEth -B 02:00:00:00:00:01": "swap --client and --server",

		"write bw --send-with-imm":          "use --write-with-imm",
		"write bw --reversed -R":            "the other way round",
		"send bw --reversed -g":             "the server receives",
		"read lat --reversed --max-lat 5 h": "with --reversed to the server",
		"write bw --latency-gap 5":          "bandwidth tests have --rate-limit",
		"write lat --latency-gap -5":        "is negative",
		"write lat --latency-gap 20s":       "half of --timeout",
		"write lat --latency-gap x":         "not a number of microseconds",
		"write lat --latency-gap 1e300":     "too long",
		"write bw -U":                       "only for latency tests",
		"write lat -U -D 1":                 "keeps only the distribution",
		"write lat -U -q 2 --threads 2":     "have no order",
		"write lat -U --csv":                "use --json",
		"write bw -D 1 --report-per-port":   "two ports (-O)",
		"write bw -O --report-per-port":     "only for runs by time (-D)",
		"write bw --numa-node -2":           "is negative",
		"write bw --numa-node 0 --cpus 0":   "give only one of --numa-node",
		"write bw --numa-node 0 --no-pin":   "give only one of --numa-node",
		"write bw --flow-label 5,":          "not a flow label",
		"write bw --output latency":         "bandwidth and message_rate of bw",
		"write lat --output bandwidth":      "latency of lat",
		"write lat --output latency --json": "not with --json or --csv",
		"write lat --output latency -H":     "not with a histogram",
	} {
		var out, diag bytes.Buffer
		if rc := run(t.Context(), strings.Fields(line), &out, &diag); rc != exitUsage {
			t.Errorf("rdmaperf %s: exit code %d, want %d", line, rc, exitUsage)
		}
		if !strings.Contains(diag.String(), want) || out.Len() > 0 {
			t.Errorf("rdmaperf %s: stderr %q, want it to say %q; stdout %q", line, diag.String(), want, out.String())
		}
	}
}

// perftestNames are the options of perftest 6.06 to 6.29.
const perftestNames = `CPU-freq MGID aes_block_size aes_xts all atomic_type bidirectional bind_source_ip burst_size
	client comm_rdma_cm congest_type connection connectionless cpu_id cpu_util cq-mod cqe_poll credentials_path
	cuda_mem_type data_enc_key_app_path data_enc_keys_number data_validation data_validation_debug dest_ip dest_mac
	dest_port disable_dynamic_polling disable_numa disable_pcie_relaxed dlid dont_xchg_versions dualport duration
	encrypt_on_tx ethertype events flow_label flows flows_burst force-link gid-index gpu_touch help hop_limit ib-dev
	ib-port inline_recv inline_size ipv6 ipv6-addr iters kek_path latency_gap limit_bw limit_msgrate local_ip
	local_mac local_port log_active_dci_streams log_dci_streams mac_fwd margin mcg mmap mmap-offset mr_per_qp mtu
	noPeak no_ddp no_enhanced_reorder no_lock numa_node odp opencl_platform_id out_json out_json_file output outs
	payload_file_path perform_warm_up ph pin_cores pkey_index port post_list promiscuous qp qp-timeout rate_limit
	rate_limit_type rate_units raw_ipv6 raw_mcast rdma_cm recv_post_list remote_ip remote_mac remote_port reply_every
	report-both report-counters report-cycles report-histogrm report-per-port report-unsorted report_gbits
	retry_count reversed run_infinitely rx-depth send_with_imm server sig_before sig_offload size sl sniffer source_ip
	source_mac source_port tclass tcp tos tph_mem tx-depth typical_pkt_size unsolicited_write use-null-mr use-srq
	use_cuda use_cuda_bus_id use_cuda_dmabuf use_cuda_pcie_mapping use_data_direct use_hl use_hugepages
	use_ib_dm_dmabuf use_mlu use_mlu_dmabuf use_neuron use_neuron_dmabuf use_old_post_send use_ooo use_opencl use_rocm
	use_rocm_dmabuf use_rss vector version vlan_en vlan_pcp wait_destroy write_with_imm`

// TestPerftestOptions: each option of perftest is one here, however it is spelled. Those that are refused say why.
func TestPerftestOptions(t *testing.T) {
	o := &options{}
	f := flagSet(o)
	for name := range strings.FieldsSeq(perftestNames) {
		for _, spelled := range []string{name, strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(name, "-", "_")} {
			if f.Lookup(spelled) == nil {
				t.Errorf("there is no --%s", spelled)
			}
		}
	}
	for _, letter := range strings.Split("wypdimsntuSxcqIoMrQAlDfBTLEJjKkXWaFegzRvhbNVCHUOZPGY", "") {
		if f.ShorthandLookup(letter) == nil {
			t.Errorf("there is no -%s", letter)
		}
	}
	for _, s := range o.table {
		for _, row := range s.flags {
			line := "write bw --" + row.name()
			if f.Lookup(row.name()).NoOptDefVal == "" {
				line += "=5"
			}
			switch got, err := parse(strings.Fields(line)); {
			case row.refused == "" && row.idle == "" || !row.fits("write", "bw") ||
				slices.Contains([]string{"force-link", "congest-type", "ph"}, row.name()): // values of their own
			case row.refused != "" && (err == nil || !strings.Contains(err.Error(), row.refused)):
				t.Errorf("rdmaperf %s: %v, want %q", line, err, row.refused)
			case row.idle != "" && (err != nil || len(got.notes) != 1 ||
				!strings.HasSuffix(got.notes[0], " has no effect here: "+row.idle)):
				t.Errorf("rdmaperf %s: %v, want the note %q", line, err, row.idle)
			}
		}
	}
	for name, want := range map[string]string{"--report_": "beginning of --report-both and --report-counters and ",
		"--use_musa_pcie": "accelerators other than NVIDIA", "-G": "spread frames", "--nonsense": "unknown flag"} {
		if _, err := parse([]string{"write", "bw", name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, a := range []string{"-h", "--help", "help"} {
		var out, diag bytes.Buffer
		if rc := run(t.Context(), []string{a}, &out, &diag); rc != exitOK || diag.Len() > 0 {
			t.Errorf("%s: exit code %d, stderr %q", a, rc, diag.String())
		}
		for _, want := range []string{"{write|read|send|atomic} {bw|lat}",
			"-d, --ib-dev", "-Q, --cq-mod", "Exit status"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s does not say %q", a, want)
			}
		}
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, "default -1") || strings.Contains(line, "cpu-freq") {
				t.Errorf("%s shows %q", a, line)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	for _, a := range []string{"-V", "--version", "doctor --version", "compare -V", "report --version",
		"serve --version", "mesh --version", "stream --version", "write --version", "version"} {
		var out, diag bytes.Buffer
		if rc := run(t.Context(), strings.Fields(a), &out, &diag); rc != exitOK || diag.Len() > 0 {
			t.Errorf("%s: exit code %d, stderr %q", a, rc, diag.String())
		}
		if want := "rdmaperf of pureverbs " + buildinfo.Full() + "\n"; out.String() != want {
			t.Errorf("%s prints %q, want %q", a, out.String(), want)
		}
	}
}

// runs names a file several times.
func runs(n int, file string) string { return strings.Repeat(file+" ", n) }

// TestCompareFiles: files in, an exit code out. What is compared, package report tests.
func TestCompareFiles(t *testing.T) {
	const saved = "../report/testdata/"
	for _, tc := range []struct {
		args string
		want int
		says string
	}{
		{saved + "bw.json " + saved + "bw.json", exitNoVerdict, "1 and 1 files: no verdict; give 6 files a side"},
		{saved + "lat.json " + saved + "lat.json --tolerance=0", exitOK, ""},
		{saved + "bw.json testdata/slower.json --tolerance 3%", exitLimit, "1 of 2 figures are worse by more than 3%"},
		{runs(5, saved+"bw.json") + "-- " + runs(5, "testdata/slower.json"), exitNoVerdict,
			"5 and 5 files: no verdict"},
		{runs(6, saved+"bw.json") + "-- " + runs(6, saved+"bw.json"), exitOK, ""},
		{runs(6, saved+"bw.json") + "-- " + runs(6, "testdata/slower.json") + "--json", exitFailure, "no such file"},
		{"--json " + runs(6, saved+"bw.json") + "-- " + runs(6, "testdata/slower.json"), exitLimit, "1 of 2 figures"},
		{"testdata/mesh.json testdata/mesh.json --tolerance 3%", exitOK, ""},
		{"testdata/mesh.json " + saved + "bw.json", exitFailure, "the schema was"},
		{runs(3, saved+"bw.json"), exitUsage, "3 files; give OLD.json NEW.json"},
		{runs(3, saved+"bw.json") + "--", exitUsage, "3 files before -- and 0 after it"},
		{saved + "bw.json testdata/slower.json --tolerance 60%", exitOK, ""},
		{saved + "bw.json " + saved + "lat.json", exitFailure, "the verb was write, and is send"},
		{saved + "bw.json nowhere.json", exitFailure, "no such file"},
		{saved + "bw.json " + saved + "bw.txt", exitFailure, "not a JSON object of rdmaperf"},
		{"--help", exitOK, ""},
	} {
		var out, diag bytes.Buffer
		rc := run(t.Context(), append([]string{"compare"}, strings.Fields(tc.args)...), &out, &diag)
		if rc != tc.want || !strings.Contains(diag.String(), tc.says) || tc.says == "" && diag.Len() > 0 {
			t.Errorf("compare %s: exit code %d, want %d; stderr %q, want %q", tc.args, rc, tc.want, diag.String(),
				tc.says)
		}
	}
}

// TestNoDevice: one clear message, as text and in the JSON object.
func TestNoDevice(t *testing.T) {
	if e, err := os.ReadDir("/sys/class/infiniband"); err == nil && len(e) > 0 {
		t.Skip("this machine has an RDMA device")
	}
	var out, diag bytes.Buffer
	if rc := run(t.Context(), []string{"write", "bw", "--json"}, &out, &diag); rc != exitFailure {
		t.Errorf("exit code %d, want %d", rc, exitFailure)
	}
	if n := strings.Count(diag.String(), "\n"); n != 1 || !strings.HasPrefix(diag.String(), "rdmaperf: ") {
		t.Errorf("stderr %q, want one line", diag.String())
	}
	var d struct{ Error string }
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Error == "" {
		t.Errorf("%v in %s", err, out.String())
	}
}

func TestDoctorHelp(t *testing.T) {
	var out, diag bytes.Buffer
	rc := run(t.Context(), []string{"doctor", "--help"}, &out, &diag)
	if rc != exitOK || diag.Len() > 0 || !strings.Contains(out.String(), "3 warnings, 4 errors") {
		t.Errorf("exit code %d, stdout %q, stderr %q", rc, &out, &diag)
	}
}

// TestDoctorAlone checks that doctor reports on this machine even if the other one does not reply.
func TestDoctorAlone(t *testing.T) {
	var out, diag bytes.Buffer
	rc := run(t.Context(), []string{"doctor", "-p", "1", "127.0.0.1"}, &out, &diag)
	if rc != exitFailure || !strings.Contains(out.String(), " warnings, ") ||
		!strings.Contains(diag.String(), "start rdmaperf doctor --serve there") {
		t.Errorf("exit code %d, %q, %q", rc, &out, &diag)
	}
}

// run is the program under its own name.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return runAs(ctx, "rdmaperf", args, stdout, stderr)
}
