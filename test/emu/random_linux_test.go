//go:build linux && amd64 && !race

package emu

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuRandomReleases runs the random programs with the libraries of other Debian releases: in a full run on both data
// paths, in a short one on one of them each.
func TestEmuRandomReleases(t *testing.T) {
	testutil.NeedEmu(t)
	bin := testutil.Binary(t, "test/random")
	n := 0
	for _, w := range ways {
		if w.release == "" || w.nobody {
			continue
		}
		n++
		for i, path := range []string{"ops", "direct"} {
			if !full && i != n%2 {
				continue
			}
			t.Run(w.name+" "+path, func(t *testing.T) {
				t.Setenv("PUREVERBS_TEST_TIER", "emu")
				t.Setenv("PUREVERBS_DATAPATH", path)
				steps := "1000"
				if full {
					steps = "3000"
				}
				t.Setenv("PUREVERBS_SOAK", steps)
				if w.release == "bullseye" && path == "ops" { // its libmlx5 writes behind the queue: ibv refuses to bind
					t.Setenv("PUREVERBS_UNBOUND", "1")
				}
				if out, err := w.emulate(t, memfds, w.command(bin, "-test.run=^TestRXE_Random",
					"-test.v")...); err != nil {
					t.Errorf("%v\n%s", err, tail(out))
				}
			})
		}
	}
}
