//go:build linux && amd64 && !race

package blueflame

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuBlueFlame counts the doorbells of each test of ibv, and how many of them were copies of a WQE.
func TestEmuBlueFlame(t *testing.T) {
	testutil.NeedEmu(t)
	dir := t.TempDir()
	emu, ibv := filepath.Join(dir, "emu"), filepath.Join(dir, "ibv.test")
	build := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir = "../.."
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	build("build", "-trimpath", "-o", emu, "./emu")
	build("test", "-c", "-trimpath", "-o", ibv, "./ibv")

	const domain, plain = "TestRXEThreadDomain", "TestRXEDoorbells"
	for _, c := range []struct {
		name, path, test string
		env              []string
		copies           bool
	}{
		{"direct, thread domain", "direct", domain, nil, true},
		{"direct, none", "direct", plain, nil, false},
		{"direct, forbidden", "direct", "TestRXETwoQPsOneDomain", []string{"MLX5_SHUT_UP_BF=1"}, false},
		{"direct, three QPs", "direct", "TestRXETwoQPsOneDomain", nil, true},
		{"libmlx5, thread domain", "ops", domain, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
			defer cancel()
			trace := filepath.Join(t.TempDir(), "trace")
			run := exec.CommandContext(ctx, emu, "--strict", "--trace="+trace, "--device", "mlx5_0", "--device",
				"mlx5_1", "--",
				ibv, "-test.run=^"+c.test+"$", "-test.v")
			run.Dir = "../../ibv"
			run.Env = append(append(os.Environ(), "PUREVERBS_TEST_TIER=emu", "PUREVERBS_DATAPATH="+c.path), c.env...)
			run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
			run.WaitDelay = 5 * time.Second
			out, err := run.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: "+c.test) {
				t.Fatalf("%s: %v\n%s", c.test, err, out)
			}
			text, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			rung := len(regexp.MustCompile(`(?m) doorbell .*$`).FindAll(text, -1))
			copies := len(regexp.MustCompile(`(?m) doorbell .* blueflame$`).FindAll(text, -1))
			t.Logf("%d doorbells, %d of them copies", rung, copies)
			switch {
			case rung < 20:
				t.Errorf("%d doorbells, want 20 or more", rung)
			// The trace does not see every copy: the next doorbell may overwrite it, and the emulator may read it half
			// written.
			case c.copies && copies < rung/2:
				t.Errorf("%d of %d doorbells were copies of the WQE, want most", copies, rung)
			case !c.copies && copies > 0:
				t.Errorf("%d of %d doorbells were copies of the WQE, want none", copies, rung)
			}
		})
	}
}
