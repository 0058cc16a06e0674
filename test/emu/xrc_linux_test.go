//go:build linux && amd64 && !race

package emu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuXRCDomain has two clients of one host share an XRC domain: messages for the one come by the queue pairs of the
// other, so that the QP and the SRQ of a message are of two processes.
func TestEmuXRCDomain(t *testing.T) {
	testutil.NeedEmu(t)
	const script = `
start() { "$@" & pids="$pids $!"; }
start %[1]s -d mlx5_0 -c 2 %[4]s
until grep -qi ':%04[5]X .* 0A ' /proc/net/tcp /proc/net/tcp6; do kill -0 $! || exit; sleep 0.05; done
start %[2]s -d mlx5_1 %[4]s 127.0.0.1
start %[3]s -d mlx5_1 %[4]s 127.0.0.1
for p in $pids; do wait $p || { echo "exit code $?"; exit 1; }; done`
	ours, stock := strings.Join(here.command("xsrq_pingpong"), " "), "ibv_xsrq_pingpong"
	for i, programs := range [][3]string{{ours, ours, ours}, {ours, stock, ours}, {stock, ours, ours}} {
		for k, path := range []string{"direct", "ops"} {
			if !full && i > 0 && k != i%2 {
				continue // with stock programs on one path each
			}
			t.Run(strings.NewReplacer(ours, "ours", stock, "stock").Replace(strings.Join(programs[:], "-"))+"-"+path,
				func(t *testing.T) {
					t.Setenv("PUREVERBS_DATAPATH", path)
					p := 21000 + int(port.Add(1))
					out, err := here.emulate(t, two, "bash", "-c", fmt.Sprintf(script, programs[0], programs[1],
						programs[2], fmt.Sprintf("-g 3 -n 40 -p %d", p), p))
					if n := strings.Count(out, "success"); err != nil || n != 3 {
						t.Errorf("%v, %d of 3 programs succeeded:\n%s", err, n, out)
					}
				})
		}
	}
}
