//go:build linux && amd64 && !race

package emu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// program is a run of a program of another project, or of its two ends.
type program struct {
	name    string
	server  string // "" if there is one end; PORT is replaced in both
	client  string
	script  string // for bash, in place of a command
	emu     []string
	env     []string
	cm      bool     // the server listens in rdma_cm, not in TCP
	want    []string // what the client's output must match
	bytes   int      // that the ports received at least
	refused bool     // it fails, and says why
}

const (
	mpi       = "mpirun.openmpi -np 2 --oversubscribe --bind-to none "
	netpipe   = " NPopenmpi -i -u 512 -o /dev/null"
	integrity = `385 bytes +\d+ times --> +Integrity check passed`
	leastPipe = 1e4 // NetPIPE repeats each size as often as its clock permits, and three times at least
	qperfs    = "rc_bw rc_lat uc_bw ud_bw ud_lat rc_rdma_read_bw rc_rdma_write_lat rc_rdma_write_poll_lat " +
		"rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add"
)

// forwarded is what testpmd says of two ports that have both sent and received.
var forwarded = []string{`for port 0  -+\s+RX-packets: \d{4,} .*\s+TX-packets: \d{4,} `,
	`for port 1  -+\s+RX-packets: \d{4,} .*\s+TX-packets: \d{4,} `}

var mixed = []string{"--device", "mlx5_0", "--device", "mlx5_1,link=ib,ports=2"}

// What programs hold, as rdma tells it while they run.
const (
	await = `await() { for i in $(seq 2000); do eval "$1" && return; sleep .05; done; echo "never: $1"; exit 1; }
`
	resources = await + `t=$(mktemp -d)
stdbuf -oL ibv_rc_pingpong -d mlx5_0 -g 3 -n 100000000 >$t/out & s=$!
await 'grep -q local $t/out'
n=$((0x$(sed 's/.*QPN 0x\([0-9a-f]*\).*/\1/;q' $t/out)))
echo "qp INIT: $(rdma resource show qp |
	grep -c "link mlx5_0/1 lqpn $n rqpn 0 type RC state INIT .* pid $s comm ibv_rc_pingpong")"
echo "qp of that number: $(rdma resource show qp link mlx5_0/1 lqpn $n | grep -c "lqpn $n ")"
ibv_rc_pingpong -d mlx5_0 -g 3 -n 100000000 127.0.0.1 >$t/client & c=$!
rping -s -a 10.88.0.1 -p 7471 & r=$!
await '[ $(rdma resource show qp state RTS | wc -l) = 2 ] && [ $(rdma resource show cm_id | grep -c LISTEN) = 1 ]'
echo "qp RTS: $(rdma resource show qp | grep -c "lqpn $n .* state RTS .* pid $s\|rqpn $n .* state RTS .* pid $c")"
rdma resource show
for k in mr cq pd ctx; do
	echo "$k: $(rdma resource show $k | grep -c "pid \($s\|$c\) comm ibv_rc_pingpong")"
done
echo "cm_id: $(rdma resource show cm_id | grep -c "link mlx5_0/1 .* state LISTEN ps TCP pid $r comm rping\
 src-addr 10.88.0.1:7471 dst-addr 0.0.0.0:0")"
keys='rdma resource show mr'
nobody="$(chroot --userspec=65534:65534 / $keys)"
echo "keys: $($keys | grep -c 'rkey 0x.* lkey'),\
 for nobody $(grep -c 'mrn .* mrlen 4096' <<<"$nobody") without$(grep -o key <<<"$nobody")"
kill $s $c $r
wait
await '[ "$(rdma resource show qp; rdma resource show cm_id; rdma resource show ctx)" = "" ]'
rdma resource show
rm -r $t`
	statistics = await + `b='ib_write_bw -d mlx5_0 -n 100 -s 1024 -F'
$b >/dev/null & await '$b 127.0.0.1 >/dev/null 2>&1'
wait
n=$(cat /sys/class/infiniband/mlx5_0/ports/1/hw_counters/rx_write_requests)
echo "rx_write_requests: $n and $(rdma statistic show link mlx5_0/1 | grep -c " rx_write_requests $n ")"
rdma statistic qp mode
echo "modes: $(rdma statistic mode | wc -l)"`
	// A burst of 32 frames goes round between two ports.
	testpmd = await + `t=$(mktemp -d)
stdbuf -oL dpdk-testpmd -l 0,1 --no-huge -m 1024 -a 00e0:01:00.0 -a 00e0:02:00.0 \
	--file-prefix emu$$ -- --total-num-mbufs=16384 --disable-link-check --tx-first --stats-period=1 >$t/out 2>&1 & p=$!
await "[ \$(grep -c 'RX-packets: [0-9]\{4,\}' $t/out) -ge 2 ] || ! kill -0 $p"
kill -INT $p
wait $p
rc=$?
cat $t/out
rm -r $t
exit $rc`
	countersByMAD = await + `b='ib_write_bw -d mlx5_0 -n 50 -s 2048 -F'
$b >/dev/null & await '$b 127.0.0.1 >/dev/null 2>&1'
wait
d=/sys/class/infiniband/mlx5_0/ports/1/counters
perfquery -C mlx5_0 -P 1 >/dev/null || echo refused
q=$(perfquery -C mlx5_0 -P 1 -x)
n=$(cat $d/port_xmit_data)
echo "data: $(grep -c "PortXmitData:\.*$n$" <<<"$q") of $n"
n=$(cat $d/port_xmit_packets)
echo "packets: $(grep -c "PortXmitPkts:\.*$n$" <<<"$q") of $n"`
)

// programs lists what docs/emulator.md says that runs, and what it says that stops the others.
func programs() []program {
	rows := []program{
		{name: "ucx_info", client: "ucx_info -d",
			want: []string{`Transport: rc_verbs\s`, `Transport: rc_mlx5\s`, `Transport: ud_mlx5\s`, `Transport: dc_mlx5\s`}},
		{name: "fi_info", client: "fi_info -p verbs", want: []string{`domain: mlx5_0`, `type: FI_EP_DGRAM`, `_IB_RC`}},
		{name: "ibv_devinfo", client: "ibv_devinfo -v", want: []string{`hca_id:\s+mlx5_0`, `GID\[ +3\]:\s+::ffff:10\.88\.0\.1`}},
		{name: "rdma dev", client: "rdma dev show", want: []string{`mlx5_0: node_type ca`}},
		{name: "rdma link", client: "rdma link show", want: []string{`link mlx5_0/1 state ACTIVE .* netdev emu0`}},
		{name: "rdma system", client: "rdma system show", want: []string{`netns shared`}},
		{name: "rdma resource", script: resources, want: []string{`(?m)^qp INIT: 1$`, `(?m)^qp of that number: 1$`,
			`(?m)^qp RTS: 2$`, `(?m)^0: mlx5_0: pd 3 cq 2 qp 2 cm_id 1 mr 2 ctx 3 srq 0 $`, `(?m)^mr: 2$`, `(?m)^cq: 2$`,
			`(?m)^pd: 2$`, `(?m)^ctx: 2$`, `(?m)^cm_id: 1$`, `(?m)^keys: 2, for nobody 2 without$`,
			`(?m)^0: mlx5_0: pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0 srq 0 $`}, bytes: 4096},
		{name: "rdma statistic", script: statistics, want: []string{`(?m)^rx_write_requests: 100 and 1$`, `mode qp auto off`,
			`(?m)^modes: 0$`}, bytes: 100 << 10},
		{name: "ibstat ib", client: "ibstat mlx5_1 2", emu: mixed, want: []string{`State: Active`, `Physical state: LinkUp`,
			`Rate: 400`, `Base lid: 4`, `SM lid: 1`, `Port GUID: 0xe41d2d0300e00011`, `Link layer: InfiniBand`}},
		{name: "ibaddr", client: "ibaddr -C mlx5_1 -P 2", emu: mixed,
			want: []string{`GID fe80::e41d:2d03:e0:11 LID start 0x4 end 0x4`}},
		{name: "ibaddr of another", client: "ibaddr -C mlx5_1 -P 2 3", emu: mixed,
			want: []string{`GID fe80::e41d:2d03:e0:10 LID start 0x3 end 0x3`}},
		{name: "ibaddr of nobody", client: "ibaddr -C mlx5_1 -t 100 77", emu: mixed, refused: true,
			want: []string{`can't resolve requested address`}},
		{name: "smpquery nodeinfo", client: "smpquery -C mlx5_1 -P 1 nodeinfo -D 0", emu: mixed,
			want: []string{`NodeType:\.+Channel Adapter`, `NumPorts:\.+2`, `\nGuid:\.+0xe41d2d0300e00010`, `DevId:\.+0x1021`,
				`LocalPort:\.+1`, `VendorId:\.+0x0002c9`}},
		{name: "smpquery portinfo", client: "smpquery -C mlx5_1 -P 2 portinfo -D 0", emu: mixed,
			want: []string{`GidPrefix:\.+0xfe80000000000000`, `Lid:\.+4`, `LinkState:\.+Active`, `LinkWidthActive:\.+4X`,
				`NeighborMTU:\.+4096`, `LinkSpeedExtActive:\.+106.25 Gbps`}},
		{name: "smpquery beyond", client: "smpquery -C mlx5_1 -t 100 nodeinfo -D 0,1", emu: mixed, refused: true,
			want: []string{`node info query failed`}},
		{name: "ibportstate", client: "ibportstate -C mlx5_1 -D 0 1 disable", emu: mixed, refused: true,
			want: []string{`smp set portinfo failed`}},
		{name: "perfquery", script: countersByMAD, emu: ib, bytes: 100 << 10,
			want: []string{`(?m)^data: 1 of [1-9]\d+$`, `(?m)^packets: 1 of [1-9]\d+$`}},
		{name: "ibaddr on RoCE", client: "ibaddr -C mlx5_0 -P 1", refused: true,
			want: []string{`client_register for mgmt 1 failed`}},
		{name: "perfquery on RoCE", client: "perfquery -C mlx5_0 -P 1", refused: true,
			want: []string{`client_register for mgmt 1 failed`}},
		{name: "umad as nobody", refused: true, emu: mixed, client: "chroot --userspec=65534:65534 / ibaddr -C mlx5_1",
			want: []string{`can't open UMAD port`}},
		{name: "ibstat", client: "ibstat", want: []string{`CA type: MT4129`, `State: Active`, `Link layer: Ethernet`}},
		{name: "ibstatus", client: "ibstatus", want: []string{`'mlx5_0' port 1`, `state:\s+4: ACTIVE`}},
		{name: "testpmd", script: testpmd, emu: []string{"--device", "mlx5_0,devx=off", "--device", "mlx5_1,devx=off",
			"--links=bridge"}, want: forwarded},
		{name: "testpmd with DevX", script: strings.ReplaceAll(testpmd, ":00.0", ":00.0,dv_flow_en=0"), want: forwarded,
			emu: []string{"--device", "mlx5_0", "--device", "mlx5_1", "--links=bridge"}},
		{name: "testpmd with steering by DevX", client: "dpdk-testpmd -l 0,1 --no-huge -m 512 -a 00e0:01:00.0 " +
			"--file-prefix emu -- --total-num-mbufs=2048", emu: []string{"--links=bridge"},
			want: []string{`Cannot create drop RX queue`, `No probed ethernet devices`}},

		{name: "qperf", server: "qperf -lp PORT", client: "qperf 127.0.0.1 -lp PORT -t 1 " + qperfs + " quit", emu: ib,
			want:  []string{`rc_bw:\s+bw`, `uc_bw:\s+send_bw`, `ud_lat:\s+latency`, `ver_rc_fetch_add:\s+msg_rate`},
			bytes: 1e6},
		{name: "qperf cm", server: "qperf -lp PORT", client: "qperf 127.0.0.1 -lp PORT -t 1 -cm 1 rc_bw rc_lat quit",
			want: []string{`rc_bw:\s+bw`, `rc_lat:\s+latency`}, bytes: 1e6},

		{name: "mpi ucx rc", client: mpi + "--mca pml ucx" + netpipe, env: []string{"UCX_TLS=rc_v,self"},
			want: []string{integrity}, bytes: leastPipe},
		{name: "mpi ucx rc_mlx5", client: mpi + "--mca pml ucx" + netpipe, env: []string{"UCX_TLS=rc_x,self"},
			want: []string{integrity}, bytes: leastPipe},
		{name: "mpi ucx dc_mlx5", client: mpi + "--mca pml ucx" + netpipe, env: []string{"UCX_TLS=dc_x,self"},
			want: []string{integrity}, bytes: leastPipe},
		{name: "mpi ofi", client: mpi + "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm" + netpipe,
			want: []string{integrity}, bytes: leastPipe},
	}
	for _, ep := range []string{"verbs;ofi_rxm -e rdm", "verbs -e msg", "verbs -e dgram"} {
		flags := " -I 50 -S 1024 -c -p " + ep
		rows = append(rows, program{name: "fi_pingpong " + ep, server: "fi_pingpong -B PORT" + flags,
			client: "fi_pingpong" + flags + " -P PORT 10.88.0.1", want: []string{`(?m)^1k +50 +=50 `}, bytes: 50 << 10})
	}
	for _, tls := range []string{"rc_v", "ud_v", "rc_x", "ud_x", "dc_x"} {
		for _, test := range []string{"tag_lat", "tag_bw", "ucp_am_bw", "ucp_put_bw", "ucp_get", "stream_bw", "ucp_fadd"} {
			size := " -s 8192"
			if test == "ucp_fadd" {
				size = " -s 8"
			}
			rows = append(rows, program{name: "ucx_perftest " + tls + " " + test, server: "ucx_perftest -p PORT",
				client: "ucx_perftest 127.0.0.1 -p PORT -w 10 -n 200 -t " + test + size,
				env:    []string{"UCX_TLS=" + tls, "UCX_NET_DEVICES=mlx5_0:1"},
				want:   []string{`Final:\s+200\s`}, bytes: 1600})
		}
	}
	// fio's sends are never tried again: its server has a receive for each from the beginning.
	for _, verb := range []string{"write", "read", "send"} {
		const job = " --port=PORT --bs=64k --size=4m --iodepth=8 "
		depth := ""
		if verb == "send" {
			depth = "--iodepth=64"
		}
		rows = append(rows, program{name: "fio " + verb, cm: true,
			server: "fio --name=s --ioengine=rdma --bind=127.0.0.1 --rw=read" + job + depth,
			client: "fio --name=c --ioengine=rdma --hostname=127.0.0.1 --rw=write --verb=" + verb + job,
			want:   []string{`issued rwts: total=0,64,0,0`, `io=4096KiB`}, bytes: 4 << 20})
	}
	return rows
}

// TestEmuPrograms runs programs of other projects, of two Debian releases.
func TestEmuPrograms(t *testing.T) {
	testutil.NeedEmu(t)
	if !full {
		t.Skip("a full run downloads the programs: make test-full")
	}
	for _, release := range []string{"bookworm-programs", "trixie-programs"} {
		for _, p := range programs() {
			t.Run(release+"/"+p.name, func(t *testing.T) { p.run(t, way{release: release}) })
		}
	}
}

// busyRuns is how many programs TestEmuProgramsBusy runs, unless PUREVERBS_BUSY_RUNS says another number.
const busyRuns = 300

// TestEmuProgramsBusy runs programs of UCX, Open MPI and DPDK while eight other processes compute. The kernel then
// interrupts the programs and the emulator at any instruction. The programs are correct, so a report of strict mode is
// the emulator's mistake.
func TestEmuProgramsBusy(t *testing.T) {
	testutil.NeedEmu(t)
	if !full {
		t.Skip("a full run downloads the programs: make test-full")
	}
	runs := busyRuns
	if s := os.Getenv("PUREVERBS_BUSY_RUNS"); s != "" {
		var err error
		if runs, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	list := slices.DeleteFunc(programs(), func(p program) bool {
		return !strings.HasPrefix(p.name, "ucx_perftest") && !strings.HasPrefix(p.name, "mpi ucx") &&
			p.name != "testpmd" && p.name != "testpmd with DevX"
	})
	releases := []string{"bookworm-programs", "trixie-programs"}
	start := time.Now()
	for n := range runs {
		// A run of one release's list, and then of the other's.
		p, release := list[n%len(list)], releases[n/len(list)%len(releases)]
		t.Run(fmt.Sprint(n, " ", release, "/", p.name), func(t *testing.T) { p.run(t, way{release: release}) })
	}
	t.Logf("%d programs ran, in %v", runs, time.Since(start).Round(time.Second))
}

var received = regexp.MustCompile(`(?m)^=== received ((?:\d+ )+)words$`)

func (p program) run(t *testing.T, w way) {
	at := strconv.Itoa(21000 + int(port.Add(1)))
	line := func(s string) []string {
		f := append([]string{"env"}, p.env...)
		if strings.HasPrefix(s, mpi) {
			f = append(f, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
		}
		if strings.HasPrefix(s, "ucx_perftest") && w.release == "trixie-programs" {
			s += " -P 0" // not by MPI
		}
		f = append(f, strings.Fields(strings.ReplaceAll(s, "PORT", at))...)
		return w.command(f[0], f[1:]...)
	}
	run := line(p.client)
	if p.script != "" {
		run = w.command("bash", "-c", p.script)
	}
	if p.server != "" {
		run = append([]string{filepath.Join(root, ".build/bin/pair"), "-t", limit.String(), "-p", at}, line(p.server)...)
		if p.cm {
			run[3] = "-cm"
		}
		run = append(append(run, "--"), line(p.client)...)
	}
	const counted = `"$@" </dev/null; rc=$?
echo "=== received $(cat /sys/class/infiniband/*/ports/*/counters/port_rcv_data | tr '\n' ' ')words"
exit $rc`
	// Like perftest these do not destroy all that they made. UCX gives memory back before it deregisters it.
	flags := append([]string{"--strict-ignore=leak,mr-unmapped"}, p.emu...)
	out, err := w.emulate(t, flags, append([]string{"bash", "-c", counted, "bash"}, run...)...)
	// On a busy machine fio's server has not posted its receives after the half second that its client waits.
	for try := 1; try < 3 && strings.Contains(out, "status 13(RNR retry counter exceeded)"); try++ {
		t.Log("a program sent before its peer was ready, and never sends again: once more")
		out, err = w.emulate(t, flags, append([]string{"bash", "-c", counted, "bash"}, run...)...)
	}
	if (err != nil) != p.refused {
		t.Errorf("%v", err)
	}
	client := out
	if p.server != "" {
		_, client = parts(out)
	}
	for _, want := range p.want {
		if !regexp.MustCompile(want).MatchString(client) {
			t.Errorf("no %s", want)
		}
	}
	if n, err := words(out); err != nil || 4*n < p.bytes {
		t.Errorf("the ports received %d bytes, want %d: %v", 4*n, p.bytes, err)
	}
	if t.Failed() {
		t.Logf("%s\n%s", strings.Join(run, " "), tail(out))
	}
}

// words returns the sum of the ports' counters.
func words(out string) (sum int, err error) {
	m := received.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no counters")
	}
	for _, f := range strings.Fields(m[1]) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
