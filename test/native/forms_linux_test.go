//go:build linux && amd64 && !race

package native

import (
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuNative_Forms spoils the reply to each command in the forms that newer kernels do not need: write(), and
// INVOKE_WRITE for all that has no other method. The first kernel lacks some features, the second has all.
func TestEmuNative_Forms(t *testing.T) {
	commands, _ := known(t)
	for i, abi := range []string{"write", "invoke"} {
		if !testutil.Turn(i, 2) {
			continue
		}
		t.Run(abi, func(t *testing.T) {
			n := sent(t, emulator{role: "again", abi: abi, env: []string{lacksEnv + "=1"}})
			if n["create_qp"] == 0 || n["reg_mr"] == 0 || n["modify_qp"] == 0 {
				t.Fatalf("commands: %v", n)
			}
			list := specs(n, commands, "reply=short", "reply=long", "reply=random")
			faulty(t, emulator{abi: abi}, list)
		})
	}
}

// TestEmuNative_Lacks: what a kernel lacks in the forms that it has is refused with a type, and nothing else is.
func TestEmuNative_Lacks(t *testing.T) {
	testutil.NeedEmu(t)
	for abi, want := range map[string]bool{"write": true, "ioctl": false, "invoke": false} {
		out := emulator{role: "once", control: ibv.ControlNative, abi: abi}.run(t)
		for line := range strings.Lines(out) {
			if !strings.Contains(line, "is not supported: it needs") {
				t.Errorf("%s: %s", abi, line)
			}
		}
		if (out != "") != want {
			t.Errorf("%s: it lacks %q", abi, out)
		}
	}
}
