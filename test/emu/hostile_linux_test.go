//go:build linux && amd64 && !race

package emu

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// released waits in a script until the emulator has released everything that programs had, and prints its counts. After
// a program is killed that takes a moment.
const released = `for i in $(seq 600); do EMU control stats | grep -q '"contexts":0,"objects":0' && break; sleep 0.1; done; EMU control stats; `

// TestEmuHostile lets a program do its worst. Afterwards other programs work in the same emulator, and nothing of the
// first is left.
func TestEmuHostile(t *testing.T) {
	testutil.NeedEmu(t)
	build := exec.Command("go", "build", "-o", filepath.Join(root, ".build/bin/"), "./hostile")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	bin := func(name string) string { return filepath.Join(root, ".build/bin", name) }
	attacks := strings.Fields("ioctl write cm commands races mmap close signals forks rings")
	type run struct {
		what string
		way
	}
	var runs []run
	for _, what := range attacks {
		if full { // all of them, one after the other, are a run below
			runs = append(runs, run{what, here})
		}
	}
	// Each one leaves files open, which would use up the emulator's descriptors in time.
	all := strings.Join(attacks, " ") + strings.Repeat(" close", 8) + " signals"
	if full {
		runs = append(runs, run{all, ways[1]})
	}
	for _, r := range append(runs, run{all, here}, run{"forks", ways[1]}) {
		t.Run(strings.Join(slices.Compact(strings.Fields(r.what)), " ")+" "+r.name, func(t *testing.T) {
			out, err := r.emulate(t, nil, "sh", "-c", strings.NewReplacer("HOSTILE", bin("hostile"), "EMU", bin("emu"),
				"PAIR", bin("pair")).Replace(
				"timeout -s KILL "+strconv.Itoa(int(limit.Seconds()))+" HOSTILE "+r.what+
					` || echo "it ended with $?"; `+released+`PAIR -t `+limit.String()+
					` -p 21970 ibv_rc_pingpong -p 21970 -g 3 -c -- ibv_rc_pingpong -p 21970 -g 3 -c 127.0.0.1; ibv_devinfo`))
			code := ""
			if err != nil {
				code = err.Error()
			}
			// Garbage breaks rules: 99 is right.
			if code != "" && code != "exit status 99" || strings.Contains(out, "it ended with") ||
				strings.Contains(out, "mistake of the emulator") ||
				strings.Count(out, "=== server: exit 0") != 1 || strings.Count(out, "=== client: exit 0") != 1 ||
				!strings.Contains(out, "PORT_ACTIVE") ||
				!strings.Contains(out, `"contexts":0,"objects":0`) {
				t.Errorf("%s\n%s", code, tail(out))
			}
		})
	}
}
