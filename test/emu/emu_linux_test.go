//go:build linux && amd64 && !race

package emu

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

var (
	ib       = []string{"--device", "mlx5_0,link=ib"}
	grh      = []string{"--device", "mlx5_0,link=ib,grh=required"}
	least    = []string{"--device", "mlx5_0,max_inline=0,max_sge=1,max_srq=0,max_mw=0,max_atomic=0"}
	fewest   = []string{"--device", "mlx5_0,max_inline=0,max_sge=1,max_srq=0,max_mw=0"} // rdma_cm's access has atomics
	cqe0     = []string{"--device", "mlx5_0,cqe_version=0"}
	jumbo    = []string{"--device", "mlx5_0,mtu=4096"}
	two      = []string{"--device", "mlx5_0", "--device", "mlx5_1"}
	memfds   = []string{"--device", "mlx5_0,dmabuf=memfd", "--device", "mlx5_1"}
	sigint   = []string{"-int", "\n 4096 "} // the figures of a second
	loopback = []string{"127.0.0.1", "::1", "10.88.0.1", "fd00:88::1"}
	signed   = "MLX5_QP_SIGNATURE=1 MLX5_SRQ_SIGNATURE=1" // work requests carry signatures: receives begin with one
)

// every lists rows that always run in every way.
var every = []row{
	{command: "ibv_rc_pingpong -g 3 -c -n 200 -s 9001"},
	{command: "ibv_ud_pingpong -g 3 -c -n 200 -s 1000 -e"},
	{command: "ibv_srq_pingpong -g 3 -c -n 200 -s 5000 -q 4"},
	{command: "ib_write_bw -n 100 -s 65536"},
	{command: "ib_send_lat -n 200 -s 64"},
	{command: "rping -C 5 -v -V -S 1000"},
	{command: "rc_pingpong/ibv_rc_pingpong -g 3 -c -n 60 -s 9001 -r 20"},
	{command: "ib_write_bw/rdmaperf:write:bw -n 100 -s 65536"},
}

// once lists rows that run in one way, and in every way in a full run.
var once = []row{
	{command: "ibv_rc_pingpong -g 3 -c -n 20 -s 1048576 -r 10"},
	{command: "ibv_rc_pingpong -g 3 -c -n 200 -e"},
	{command: "ibv_rc_pingpong -g 3 -c -n 200 -t"},
	// not -t: it fails when an event finds nothing to poll, as may be on any device
	{command: "ibv_rc_pingpong -g 3 -c -n 100 -N -e -s 65536"},
	{command: "ibv_rc_pingpong -g 3 -c -n 100 -o -s 9001"}, // on demand
	{command: "ibv_rc_pingpong -g 3 -c -n 50 -O -P -s 65536"},
	{command: "ibv_rc_pingpong -g 3 -c -n 100 -j -s 9000"}, // in device memory
	{command: "ibv_rc_pingpong -c -n 200", emu: ib},
	{command: "ibv_rc_pingpong -g 0 -c -n 200", emu: grh},
	{command: "ibv_ud_pingpong -g 0 -c -n 200 -s 2048", emu: grh},
	{command: "rc_pingpong -c -n 200", emu: grh}, // which finds out that it needs a GID
	{command: "ud_pingpong/ibv_ud_pingpong -g 0 -c -n 200 -s 2048", emu: grh},
	{command: "ibv_xsrq_pingpong/xsrq_pingpong -g 0 -n 20", emu: grh},
	{command: "rdmaperf:send:bw -n 200 -s 4096", emu: grh},
	{command: "rdmaperf:write:bw/ib_write_bw -x 0 -n 200 -s 4096", emu: grh},
	{command: "rping -C 5 -v -V -S 1000", emu: grh},
	{command: "udaddy -C 5", emu: grh},
	{command: "rdmaperf:send:lat -n 200 -s 64", emu: least},
	{command: "rdmaperf:write:lat -R -n 200 -s 64", emu: least},
	{command: "rdmaperf:send:lat/ib_send_lat -I 0 -n 200 -s 64", emu: least},
	{command: "rping -C 5 -v -V -S 1000", emu: fewest},
	{command: "ucmatose -c 2 -C 10 -S 2000", emu: fewest},
	{command: "ibv_rc_pingpong -g 3 -c -n 100 -d mlx5_0; ibv_rc_pingpong -g 3 -c -n 100 -d mlx5_1", emu: two},
	{command: "ibv_uc_pingpong -g 3 -c -n 20 -s 1048576 -r 10 -e"},
	{command: "ibv_ud_pingpong -g 3 -c -n 200 -s 4096", emu: jumbo},
	{command: "ibv_ud_pingpong -c -n 200 -s 2048", emu: ib},
	{command: "ibv_srq_pingpong -g 3 -c -n 64 -q 8 -s 262144 -r 32"},
	{command: "ibv_xsrq_pingpong -g 3"},
	{command: "xsrq_pingpong/ibv_xsrq_pingpong -g 3 -n 20"},
	{command: "ibv_rc_pingpong/rc_pingpong -g 3 -c -n 60 -s 9001 -r 20", emu: cqe0},

	{command: "ibv_rc_pingpong -g 3 -c -n 100 -s 9001 -r 20", env: signed},
	{command: "ibv_xsrq_pingpong -g 3", env: signed},
	{command: "ib_send_lat -c DC -n 50 -s 64", env: signed},
	{command: "raw_ethernet_lat -n 50 -s 64", emu: two, env: signed},

	{command: "ib_write_bw -c UC -n 100 -s 4096 -q 4 -b"},
	{command: "ib_write_bw -n 1600 -s 8 -l 16 -I 64"},
	{command: "stdbuf:-oL:ib_write_bw --run_infinitely -D 1 -s 4096", pair: sigint},
	{command: "ib_read_bw -n 100 -s 65536 -q 4"},
	{command: "ib_read_bw -n 100 -s 65536 --odp -q 2"},
	{command: "ib_read_lat -n 100 -s 4096 -e"},
	{command: "ib_send_bw -n 100 -s 65536 -e"},
	{command: "ib_send_bw -c UD -n 160 -s 512 -l 16"},
	{command: "ib_send_bw -c XRC -n 100 -s 4096"},
	{command: "ib_send_bw -n 100 -s 4096 --use-srq -q 4"},
	{command: "ib_send_lat -c DC -n 100 -s 64"},
	{command: "ib_read_bw -c DC -n 100 -s 4096 -q 4", emu: ib},
	{command: "ib_send_lat -n 200 -s 64 -e"}, // one channel for both CQs
	{command: "ib_send_lat -c UD -n 200 -s 512 -e"},
	{command: "ib_atomic_bw -n 200 -A CMP_AND_SWAP -b"},
	{command: "ib_atomic_lat -n 200"},
	{command: "ib_write_bw -n 100 -s 65536", emu: ib},
	{command: "ib_write_bw -R -n 100 -s 65536"},

	{command: "raw_ethernet_lat -n 200 -s 64", emu: two},
	{command: "raw_ethernet_lat/raw_pingpong -n 200 -s 64", emu: two},

	{command: "rping -C 5 -v -V -S 64", host: loopback[1]},
	{command: "ucmatose -c 4 -C 10 -S 2000"},
	{command: "udaddy -c 1 -C 10 -S 500"},
	{command: "rdma_server/rdma_client"},
	{command: "mckey -m 239.1.2.3 -C 5"},

	{command: "rdmaperf:send:bw -n 480 --sizes 64,1K,4096 --recv-post-list 16 --cqe-poll 8"},
	{command: "rdmaperf:write:bw -b -n 800 -s 4096 --rate-limit 4000 --rate-units p --burst-size 8 --report-interval 0.1"},
	{command: "ib_write_bw/rdmaperf:write:bw -R -n 100 -s 65536 -b", host: loopback[2]},
}

// more lists rows that run only in a full run, in every way.
var more = []row{
	{command: "ibv_rc_pingpong -g 3 -c -n 100 -s 64 -m 256"},
	{command: "ibv_rc_pingpong -g 0 -c -n 100"},
	{command: "ibv_rc_pingpong -g 5 -c -n 100"},
	{command: "ibv_rc_pingpong -g 3 -n 1000 -s 4096"},
	{command: "ibv_uc_pingpong -g 3 -c -n 200 -s 1"},
	{command: "ibv_uc_pingpong -c -n 200 -s 65536", emu: ib},
	{command: "ibv_ud_pingpong -g 1 -c -n 500 -s 1024"},
	{command: "ibv_srq_pingpong -g 3 -c -n 200 -s 1 -q 1"},
	{command: "ibv_srq_pingpong -c -n 200 -s 1048576 -q 4 -r 16 -e", emu: ib},
	{command: "ibv_xsrq_pingpong -g 3 -n 20 -s 1048576"},

	{command: "ibv_rc_pingpong -g 3 -c -n 100 -O -t -s 1"},
	{command: "ibv_rc_pingpong -g 3 -c -n 100 -j -e -N -s 65536"},
	{command: "ib_write_bw -n 100 -s 65536 --odp"},
	{command: "ib_send_bw -n 100 -s 65536 --odp -e"},
	{command: atomicODP},
	{command: "ib_write_bw -c XRC -n 100 -s 4096"},
	{command: "ib_write_bw -n 5 -a"},
	{command: "ib_write_bw -c UC -n 5 -a"},
	{command: "ib_write_bw -n 100 -s 1"},
	{command: "ib_write_bw -n 100 -s 1048576 -q 4"},
	{command: "ib_write_bw -n 100 -s 65536 -x 0"},
	{command: "ib_write_bw -n 100 -s 65536 -x 5 -m 256"},
	{command: "ib_write_bw -n 100 -s 4096 -t 1 -Q 1"},
	{command: "ib_write_bw -n 100 -s 4096 --report-both -b"},
	{command: "ib_write_bw -D 1 -s 65536"},
	{command: "ib_write_lat -n 5 -a"},
	{command: "ib_write_lat -c XRC -n 100 -s 64"},
	{command: "ib_write_lat -D 1 -s 64"},
	{command: "ib_read_bw -n 5 -a"},
	{command: "ib_read_bw -c XRC -n 100 -s 4096"},
	{command: "ib_read_bw -n 100 -s 65536 -b -o 1"},
	{command: "ib_read_lat -n 5 -a"},
	{command: "ib_send_bw -n 5 -a"},
	{command: "ib_send_bw -c UD -n 5 -a"},
	{command: "ib_send_bw -c UC -n 5 -a"},
	{command: "ib_send_bw -n 160 -s 64 -l 16 -I 64 -q 4"},
	{command: "ib_send_bw -n 160 -s 4096 -r 64 --recv_post_list=16"},
	{command: "ib_send_bw -c UD -n 100 -s 512 -q 4 -b -e"},
	{command: "ib_send_lat -n 5 -a"},
	{command: "ib_send_lat -c XRC -n 100 -s 64"},
	{command: "ib_send_lat -c UD -n 100 -s 64 --use-srq"},
	{command: "ib_send_bw -c DC -n 5 -a -b"},
	{command: "ib_send_bw -c DC -n 100 -s 4096 -q 4"},
	{command: "ib_send_bw -c DC -n 100 -s 4096", emu: cqe0},
	{command: "ib_write_lat -c DC -n 100 -s 64"},
	{command: "ib_read_lat -c DC -n 100 -s 64", emu: jumbo},
	{command: "ib_atomic_bw -c DC -n 100"},
	{command: "ib_atomic_bw -n 160 -l 16 -e"},
	{command: "ib_atomic_bw -c XRC -n 100"},
	{command: "ib_send_bw -R -n 100 -s 65536 -e"},
	{command: "ib_send_bw -R -c UD -n 100 -s 512"},
	{command: "ib_read_lat -R -n 100 -s 64"},
	{command: "ib_atomic_bw -R -n 100"},
	{command: "ib_write_bw -z -n 100 -s 4096"},
	{command: "ib_write_bw -R -n 100 -s 4096", host: loopback[2]},

	{command: "raw_ethernet_lat -n 200 -s 200 -J 10.88.1.1 -j 10.88.0.1 -K 5000 -k 5000", emu: two},
	{command: "raw_pingpong -n 200 -s 1514", emu: two},

	{command: "rping -C 3 -v -V -S 65535", host: loopback[3]},
	{command: "rping -C 50 -V -S 100", emu: ib},
	{command: "ucmatose -c 1 -C 100 -S 65536 -f ip"},
	{command: "ucmatose -c 10 -C 1", host: loopback[2]},
	{command: "udaddy -c 4 -C 20 -S 1000", host: loopback[2]},
	{command: "rdma_xserver/rdma_xclient"},
	{command: "rstream -S 4096 -C 50 -I 2 -T v"},
	{command: "riostream -S 4096 -C 50 -I 2 -T v"},

	{command: "ibv_rc_pingpong/rc_pingpong -g 3 -c -n 60 -s 1048576 -r 20 -e"},
	{command: "uc_pingpong/ibv_uc_pingpong -g 3 -c -n 60 -s 9001 -r 20 -e"},
	{command: "ibv_ud_pingpong/ud_pingpong -g 3 -c -n 60 -s 1000 -r 20"},
	{command: "uc_pingpong -c -n 200 -s 70000 -e"},
	{command: "ud_pingpong -c -n 200 -s 1024"},
	{command: "srq_pingpong -c -n 200 -s 70000"},
	{command: "rc_pingpong -c -n 200 -s 4096", emu: ib},
	{command: "rdmaperf:write:bw/ib_write_bw -n 10 -a"},
	{command: "ib_write_bw/rdmaperf:write:bw -n 160 -s 64 -l 16 -I 64 -b"},
	{command: "ib_read_bw/rdmaperf:read:bw -n 100 -s 4096 -q 4"},
	{command: "rdmaperf:read:lat/ib_read_lat -n 200 -s 64"},
	{command: "ib_send_bw/rdmaperf:send:bw -n 100 -s 4096 -q 4 -b"},
	{command: "rdmaperf:send:lat/ib_send_lat -n 200 -s 64"},
	{command: "rdmaperf:write:bw -n 100 -s 65536 --verify"},
	{command: "rdmaperf:read:bw/ib_read_bw -R -n 100 -s 65536 -q 4", host: loopback[2]},
	{command: "ib_send_lat/rdmaperf:send:lat -R -n 200 -s 64", host: loopback[2]},
	{command: "rdmaperf:write:lat/ib_write_lat -R -n 200 -s 8", host: loopback[2]},
	{command: "rdmaperf:send:bw -R -n 100 -s 65536 --verify", host: loopback[3]},
	{command: "rdmaperf:read:bw -n 100 -s 65536 --verify -q 4"},
	{command: "rdmaperf:send:lat -n 100 -s 64 --verify -e"},

	{command: "ibv_rc_pingpong -g 3 -c -n 500 -s 1"},
	{command: "ibv_rc_pingpong -g 3 -c -n 200 -N"},
	{command: "ibv_rc_pingpong -g 3 -c -n 100 -o -P -e"},
	{command: "ibv_uc_pingpong -g 3 -c -n 200"},
	{command: "ibv_ud_pingpong -g 3 -c -n 200 -s 1"},
	{command: "ibv_srq_pingpong -g 3 -c -n 300 -e"},
	{command: "ibv_xsrq_pingpong/xsrq_pingpong -g 3 -n 20 -e"},
	{command: "xsrq_pingpong -n 20 -s 70000"},
	{command: "ibv_xsrq_pingpong -n 20 -e", emu: ib},
	{command: "srq_pingpong/ibv_srq_pingpong -g 3 -c -n 120 -s 5001 -r 24 -q 5", emu: cqe0},
	{command: "ibv_xsrq_pingpong -g 3 -n 20", emu: cqe0},
	{command: "ib_write_lat -n 500 -s 8"},
	{command: "ib_write_lat -c UC -n 100 -s 4096"},
	{command: "ib_read_bw -n 160 -s 4096 -e -l 16"},
	{command: "ib_read_lat -n 200 -s 64"},
	{command: "ib_send_bw -c UC -n 100 -s 4096 -q 4 -b"},
	{command: "ib_write_bw -c DC -n 100 -s 65536"},
	{command: "ib_send_lat -c UD -n 200 -s 512"},
	{command: "ib_send_lat -c UC -n 200 -s 64 -e"},
	{command: "ib_send_lat -c UC -n 200 -s 1"},
	{command: "ib_atomic_bw -n 200 -q 4"},
	{command: "ib_atomic_lat -n 100 -A CMP_AND_SWAP -e"},
	{command: "ib_send_lat -R -n 100 -s 64"},
	{command: "raw_ethernet_bw -n 500 -s 1000", emu: two},
	{command: "raw_pingpong/raw_ethernet_lat -n 200 -s 1000", emu: two},
	{command: "rping -C 5 -v -V -S 20000 -q", host: loopback[2]},
	{command: "ibv_uc_pingpong/uc_pingpong -g 3 -c -n 60 -s 9001 -r 20"},
	{command: "ud_pingpong/ibv_ud_pingpong -g 3 -c -n 60 -s 1000 -r 20 -e"},
	{command: "ibv_srq_pingpong/srq_pingpong -g 3 -c -n 120 -s 5001 -r 24 -q 5"},
	{command: "srq_pingpong/ibv_srq_pingpong -g 3 -c -n 120 -s 5001 -r 24 -q 5 -e"},
	{command: "rc_pingpong -c -n 200 -s 70000"},
	{command: "rdmaperf:write:bw/ib_write_bw -n 100 -s 4096 -q 4"},
	{command: "rdmaperf:write:lat/ib_write_lat -n 200 -s 8"},
	{command: "ib_write_lat/rdmaperf:write:lat -n 200 -s 8"},
	{command: "rdmaperf:read:bw/ib_read_bw -n 100 -s 65536"},
	{command: "ib_read_lat/rdmaperf:read:lat -n 200 -s 64"},
	{command: "rdmaperf:send:bw/ib_send_bw -n 100 -s 4096 -e"},
	{command: "ib_send_lat/rdmaperf:send:lat -n 200 -s 64"},
	{command: "rdmaperf:send:bw -n 100 -s 65536 --verify"},
	{command: "rdmaperf:write:bw/ib_write_bw -R -n 100 -s 4096 -q 4", host: loopback[2]},
}

var releases = []string{"bullseye", "trixie", "sid"}

const atomicODP = "ib_atomic_bw -n 100 --odp"

// TestEmuPairs runs two programs against each other.
func TestEmuPairs(t *testing.T) {
	testutil.NeedEmu(t)
	n := 0
	for _, w := range ways {
		if w.nobody && w.release != "" && !full {
			continue // a short run has each by itself
		}
		t.Run(w.name, func(t *testing.T) {
			rows := every
			if full {
				rows = append(append(append([]row(nil), every...), once...), more...)
			} else if w == here {
				rows = append(append([]row(nil), every...), once...)
			}
			for _, r := range rows {
				if n++; !testutil.Turn(n, 3) {
					continue
				}
				if strings.HasPrefix(r.command, "stdbuf") && w.release != "" {
					continue // not among the release's programs
				}
				if r.command == atomicODP && (w.release == "" || w.release == "bullseye") {
					continue // perftest before Debian 13's refuses it
				}
				if strings.HasPrefix(r.command, "raw_") && w.nobody {
					continue // frames take CAP_NET_RAW
				}
				t.Run(strings.TrimSpace(r.env+" "+r.command+" "+r.host+strings.Join(r.emu, " ")),
					func(t *testing.T) { r.run(t, w) })
			}
		})
	}
}

// TestEmuLists runs the programs that list devices.
func TestEmuLists(t *testing.T) {
	testutil.NeedEmu(t)
	for _, tt := range []struct {
		command string
		emu     []string
		want    string // a regular expression
	}{
		{"ibv_devices", nil, `mlx5_0\s+[0-9a-f]{16}`},
		{"ibv_devices", two, `mlx5_0\s+\w+\s+mlx5_1`},
		{"ibv_devinfo", nil, `(?s)hca_id:\s+mlx5_0.*vendor_part_id:\s+4129.*PORT_ACTIVE.*link_layer:\s+Ethernet`},
		{"ibv_devinfo -v", nil, `(?s)max_qp:\s+\d+.*device_cap_flags.*GID\[ +0\]:\s+fe80:.*GID\[ +3\]:`},
		{"ibv_devinfo -v", ib, `(?s)port_lid:\s+[1-9].*link_layer:\s+InfiniBand.*GID\[ +0\]:\s+fe80:`},
		{"ibv_devinfo -l", two, `2 HCAs found:\s+mlx5_0\s+mlx5_1`},
		{"devinfo -v", nil, `(?s)mlx5_0.*(ACTIVE|active).*10\.88\.0\.1`},
		{"devinfo -l", two, `mlx5_0\s+mlx5_1`},
		{"show_gids", nil, `mlx5_0\s+1\s+3\s.*10\.88\.0\.1\s+RoCEv2`},
		{"show_gids --best", nil, `^3\n`},
	} {
		for _, w := range ways {
			t.Run(w.name+"/"+tt.command+" "+strings.Join(tt.emu, " "), func(t *testing.T) {
				f := strings.Fields(tt.command)
				out, err := w.emulate(t, tt.emu, w.command(f[0], f[1:]...)...)
				if err != nil {
					t.Fatalf("%v\n%s", err, tail(out))
				}
				if !regexp.MustCompile(tt.want).MatchString(out) {
					t.Errorf("no %s in\n%s", tt.want, tail(out))
				}
			})
		}
	}
}

// TestEmuRefused runs programs that need features which the device lacks: they say so and end.
func TestEmuRefused(t *testing.T) {
	testutil.NeedEmu(t)
	for _, tt := range []struct {
		command string
		emu     []string
		want    string
	}{
		{"ibv_rc_pingpong -g 3 -j -s 1048576", nil, "Device memory is insufficient"},
		{"ibv_rc_pingpong -i 2", nil, "INIT"},
		{"ibv_rc_pingpong -d mlx5_9", nil, "mlx5_9 not found"},
		{"ibv_ud_pingpong -g 3 -s 1025", nil, "larger than port MTU (1024)"},
		{"ib_write_bw -d mlx5_9", nil, "mlx5_9"},
		{"rdmaperf write lat -I 64", least, "inline size (-I) 64 > 0, what mlx5_0 grants"},
		{"rdmaperf atomic bw", least, "atomic: mlx5_0 has no atomics"},
	} {
		t.Run(tt.command, func(t *testing.T) {
			f := strings.Fields(tt.command)
			out, err := here.emulate(t, tt.emu, here.command(f[0], f[1:]...)...)
			if err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("%v; want it to fail with %q\n%s", err, tt.want, tail(out))
			}
		})
	}
}

// TestEmuPair checks that a failing end fails the pair, and thereby the run.
func TestEmuPair(t *testing.T) {
	testutil.NeedEmu(t)
	pair := filepath.Join(root, ".build/bin/pair")
	for _, tt := range []struct{ name, server, client string }{
		{"client", "ib_write_bw", "false"},
		{"server", "false", "ib_write_bw"},
		{"hang", "sleep 1000", "true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := append(append([]string{pair, "-t", "2s"}, strings.Fields(tt.server)...), "--", tt.client)
			if out, err := here.emulate(t, nil, c...); err == nil {
				t.Errorf("it succeeded\n%s", out)
			}
		})
	}
}
