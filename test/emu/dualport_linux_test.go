//go:build linux && amd64 && !race

package emu

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuDualPort: rdmaperf -O fills both ports of a device, with a stock program at the other end, in both roles.
func TestEmuDualPort(t *testing.T) {
	testutil.NeedEmu(t)
	if !testutil.Full() {
		t.Skip("full runs only, by make test-full: stock programs sleep for a second on each side")
	}
	testutil.NeedProgram(t, "ib_write_bw")
	flags := []string{"--device", "mlx5_0,ports=2", "--device", "mlx5_1,ports=2", "--device", "mlx5_2"}
	out := script(t, false, flags, `cd `+root+`/.build/bin
# until somebody listens, without connecting
up() { until grep -q ':4A3[89] 0*:0000 0A' /proc/net/tcp || grep -q ':4A3[89] 0*:0000 0A' /proc/net/tcp6; do sleep 0.02; done; }
ib_write_bw -O -q 2 -n 50 -s 1024 -F -d mlx5_0 -p 19000 & up
./rdmaperf write bw -O -q 2 -n 50 -s 1024 -d mlx5_1 -p 19000 127.0.0.1; wait
./rdmaperf send bw -O -b -n 60 -s 2048 -d mlx5_0 -p 19001 & up
ib_send_bw -O -b -n 60 -s 2048 -F -d mlx5_1 -p 19001 127.0.0.1; wait
ib_write_bw -O -D 1 --report-per-port -s 4096 -F -d mlx5_0 -p 19000 & up
./rdmaperf write bw -O -D 1 --report-per-port -s 4096 -d mlx5_1 -p 19000 127.0.0.1; wait
./rdmaperf write bw -O -D 1 --report_per_port -s 8192 -d mlx5_0 -p 19001 & up
ib_write_bw -O -D 1 --report-per-port -s 8192 -F -d mlx5_1 -p 19001 127.0.0.1; wait
./rdmaperf send bw -O -D 1 --report-per-port -q 2 --threads 2 -s 16384 --json -d mlx5_0 -p 19000 & up
./rdmaperf send bw -O -D 1 --report-per-port -q 2 -s 16384 -d mlx5_1 -p 19000 127.0.0.1; wait
./rdmaperf write bw -O -d mlx5_2 2>&1 || true
EMU control port mlx5_1 2 down; ./rdmaperf write bw -O -d mlx5_1 2>&1 || true`)
	for _, want := range []string{"qps 4, half of them on port 2", "10:88:01:02", "      1024          200 ",
		"\n 1024       200 ", "      2048          120 ", "\n 2048       120 ", "mlx5_2 has 1 port", "port 2 is Ethernet, Down"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(out, strings.Repeat(" ", 17)+"port 1 "); n != 3 {
		t.Errorf("%d lines of port 1, want 3", n)
	}
	for _, size := range []string{"4096", "8192"} { // stock's rows, with both ports; the other end may go on in the line
		row := regexp.MustCompile(`(?m)^ ` + size + ` +\d+ .*$`).FindString(out)
		if f := strings.Fields(row); len(f) < 9 {
			t.Errorf("stock's row of %s bytes is %q", size, row)
			continue
		} else if sum, p1, p2 := float(t, f[3]), float(t, f[5]), float(t, f[7]); p1 <= 0 || p2 <= 0 ||
			math.Abs(p1+p2-sum) > 0.1*sum {
			t.Errorf("stock's row of %s bytes: ports of %v and %v, %v in all", size, p1, p2, sum)
		}
	}
	if !strings.Contains(out, `"ports": [`) {
		t.Error("no ports in the JSON object")
	}
	if t.Failed() {
		t.Log(out)
	}
}

func float(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Error(err)
	}
	return v
}
