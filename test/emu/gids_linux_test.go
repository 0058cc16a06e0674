package emu

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuShowGIDs_To: with a device or an interface, --to chooses among its own addresses, whichever interface the
// kernel would take without.
func TestEmuShowGIDs_To(t *testing.T) {
	testutil.NeedEmu(t)
	const bin = "../../.build/bin/"
	const script = `while read -r args; do echo "$args: $("$0" --best --json $args 2>/dev/null |
		grep -e '"ip"' | tr -d ' ",')"; done`
	cases := []struct{ args, want string }{
		{"--to 10.88.0.77", "10.88.0.1"},
		{"-d mlx5_0 --to 10.88.0.77", "10.88.0.1"},
		{"-d mlx5_1 --to 10.88.0.77", "10.88.1.1"}, // taken for a neighbour, as the kernel does for RoCE
		{"-d mlx5_1 --to 10.88.0.1", "10.88.1.1"},  // the peer is the other device
		{"--netdev emu1 --to 10.88.0.1", "10.88.1.1"},
		{"--netdev emu0 --to 10.88.0.1", "10.88.0.1"},
		{"-d mlx5_1 --to fd00:88::77", "fd00:88::101"},
		{"--netdev emu1 --to fd00:88::77", "fd00:88::101"},
		{"-d mlx5_0,mlx5_1 --to 10.88.1.77", "10.88.1.1"},
		{"--netdev emu0.100 --to fd00:88::77", ""}, // no address of this family, and no route
	}
	var lines []string
	for _, c := range cases {
		lines = append(lines, c.args)
	}
	c := exec.Command(bin+"emu", "--device", "mlx5_0", "--device", "mlx5_1", "--", "sh", "-c", script, bin+"show_gids")
	c.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.Split(string(out), "\n")
	for i, c := range cases {
		want := strings.TrimSuffix(c.args+": ip:"+c.want, "ip:")
		if i >= len(got) || got[i] != want {
			t.Errorf("%q, want %q", got[min(i, len(got)-1)], want)
		}
	}
}
