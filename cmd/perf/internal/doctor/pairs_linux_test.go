package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

const bin = "../../../../.build/bin/"

// sides are hosts of a pair: what their device has, with N in place of the number of the device.
var sides = []struct{ name, spec string }{
	{"IPv4", ",gid=10.88.N.1/v2"},
	{"IPv6", ",gid=fd00:88::N01/v2"},
	{"RoCE v1", ",gid=10.88.N.1/v1"},
	{"InfiniBand", ",link=ib"},
	// The others only in a full run.
	{"all addresses", ""},
	{"link-local", ",gid=fe80::e61d:2dff:fee0:N0/v2"},
	{"MTU 512", ",mtu=512"},
	{"no GID", ",gid=::"},
	{"down", ",state=down"},
}

// device is --device of the host with a number.
func device(i, side int) string {
	spec := strings.ReplaceAll(strings.ReplaceAll(sides[side].spec, "N0", fmt.Sprintf("%x", i*16)), "N", fmt.Sprint(i))
	return fmt.Sprintf("mlx5_%d%s", i, spec)
}

// TestEmuPairs: rdmaperf doctor HOST approves of a pair of hosts if, and only if, a test between them runs.
func TestEmuPairs(t *testing.T) {
	testutil.NeedEmu(t)
	// The report of each host, as both ends of a pair.
	sides := sides
	if !testutil.Full() {
		sides = sides[:4]
	}
	reports := make([][2][]byte, len(sides))
	var wait sync.WaitGroup
	for i := range sides {
		for end := range 2 {
			wait.Go(func() { // the exit status is that of findings
				reports[i][end], _ = exec.Command(bin+"emu", "--device", device(end, i), "--", bin+"rdmaperf", "doctor",
					"--json").Output()
			})
		}
	}
	wait.Wait()
	for a := range sides {
		for b := range sides[:a+1] {
			t.Run(sides[a].name+" and "+sides[b].name, func(t *testing.T) {
				t.Parallel()
				var here Report
				if err := json.Unmarshal(reports[a][0], &here); err != nil {
					t.Fatalf("%v\n%s", err, reports[a][0])
				}
				there, err := parsePeer(reports[b][1])
				if err != nil {
					t.Fatal(err)
				}
				here.Compare(there)
				var why []string
				for _, f := range here.Findings {
					if f.Severity == Error {
						why = append(why, f.Subject+" "+f.Check+": "+f.Text)
					}
				}
				c := exec.Command(bin+"emu", "--device", device(0, a), "--device", device(1, b), "--", "sh", "-c", `
					"$0" write bw -d mlx5_1 -n 5 >"$1" 2>&1 & server=$!
					until grep -q "waiting for a client" "$1"; do kill -0 $server || exit 1; sleep 0.05; done
					"$0" write bw -d mlx5_0 -n 5 --timeout 10 127.0.0.1
					rc=$?; kill $server 2>/dev/null; exit $rc`, bin+"rdmaperf", filepath.Join(t.TempDir(), "server"))
				var out bytes.Buffer
				c.Stdout, c.Stderr = &out, &out
				err = c.Run()
				why = slices.Compact(why)
				if (err == nil) != (why == nil) {
					t.Errorf("the test: %v\n%s\nthe doctor: %q", err, &out, why)
				}
			})
		}
	}
}
