//go:build linux && amd64 && !race

package emu

import (
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuDualPort: perf -O fills both ports of a device, with a stock program at the other end, in both roles.
func TestEmuDualPort(t *testing.T) {
	if !testutil.Full() {
		t.Skip("full runs only (PUREVERBS_FULL=1): stock programs sleep for a second on each side")
	}
	testutil.NeedProgram(t, "ib_write_bw")
	flags := []string{"--device", "mlx5_0,ports=2", "--device", "mlx5_1,ports=2", "--device", "mlx5_2"}
	out := script(t, false, flags, `cd `+root+`/.build/bin
# until somebody listens, without connecting
up() { until grep -q ':4A3[89] 0*:0000 0A' /proc/net/tcp || grep -q ':4A3[89] 0*:0000 0A' /proc/net/tcp6; do sleep 0.02; done; }
ib_write_bw -O -q 2 -n 50 -s 1024 -F -d mlx5_0 -p 19000 & up
./perf write bw -O -q 2 -n 50 -s 1024 -d mlx5_1 -p 19000 127.0.0.1; wait
./perf send bw -O -b -n 60 -s 2048 -d mlx5_0 -p 19001 & up
ib_send_bw -O -b -n 60 -s 2048 -F -d mlx5_1 -p 19001 127.0.0.1; wait
./perf write bw -O -d mlx5_2 2>&1 || true
EMU control port mlx5_1 2 down; ./perf write bw -O -d mlx5_1 2>&1 || true`)
	for _, want := range []string{"qps 4, half of them on port 2", "10:88:01:02", "\n      1024          200 ",
		"\n 1024       200 ", "\n      2048          120 ", "\n 2048       120 ", "mlx5_2 has 1 port", "port 2 is Ethernet, Down"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}
