//go:build linux && amd64 && !race

package emu

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// soakEnv is the environment variable that says how long TestEmuSoak runs; "make soak" sets it to ten minutes.
const soakEnv = "PUREVERBS_SOAK"

// insideEnv tells the test that it runs under the emulator.
const insideEnv = "PUREVERBS_SOAK_INSIDE"

// soaked lists the commands of a soak. Each has ports of its own, and either runs to its end or is killed on the way.
var soaked = []string{
	"ib_write_bw -n 200 -s 65536", "ib_send_bw -n 200 -s 4096 -q 4", "ib_read_bw -n 100 -s 65536 -e",
	"ib_atomic_bw -n 200", "ib_send_bw -c UD -n 200 -s 512",
	"ib_write_lat -n 200 -s 8", "ib_send_bw -n 200 -s 4096 --use-srq -q 4", "ib_write_bw -R -n 100 -s 4096",
	"rdmaperf:write:bw -n 200 -s 65536", "rdmaperf:send:bw -n 200 -s 4096", "rping -C 20 -V -S 1000", "ucmatose -c 4 -C 10",
	"rping -C 10 -V -S 60000",
	"rc_pingpong -n 200 -c -e", "srq_pingpong -n 200 -e",
}

// TestEmuSoak runs and kills programs for a while, and checks that nothing of them stays in the emulator.
func TestEmuSoak(t *testing.T) {
	testutil.NeedEmu(t)
	length := 6 * time.Second
	if s := os.Getenv(soakEnv); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv(insideEnv) != "" {
		soak(t, length)
		return
	}
	c := exec.Command(filepath.Join(root, ".build/bin/emu"), "--strict-ignore=leak,mr-unmapped", "--", os.Args[0],
		"-test.run=^TestEmuSoak$", "-test.v", "-test.timeout=0")
	c.Env = append(os.Environ(), insideEnv+"=1")
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	t.Logf("%v\n%s", err, tail(string(out)))
	if err != nil || strings.Contains(string(out), "a mistake of the emulator's") {
		t.Error("the soak failed")
	}
}

func soak(t *testing.T, length time.Duration) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var done, killed atomic.Int64
	end := time.Now().Add(length)
	var early map[string]int64
	var wg sync.WaitGroup
	for w := range uint64(3) {
		rnd := rand.New(rand.NewPCG(seed, w))
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				p := strconv.Itoa(23000 + int(w)*2000 + n%2000)
				s, c := row{command: soaked[rnd.IntN(len(soaked))]}.ends(here, p)
				args := []string{"-t", limit.String()}
				args = append(args, awaited(s, p)...)
				x := exec.Command(filepath.Join(root, ".build/bin/pair"),
					append(append(append(args, s...), "--"), c...)...)
				x.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				if rnd.IntN(2) == 0 {
					// perftest's server listens again between the two connections of -R, and its client does not retry.
					if out, err := x.CombinedOutput(); err != nil && !slices.Contains(s, "-R") {
						t.Errorf("%v: %v\n%s", x.Args, err, tail(string(out)))
					}
					done.Add(1)
					continue
				}
				if err := x.Start(); err != nil {
					t.Error(err)
					continue
				}
				time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
				_ = x.Process.Kill() // its ends die with it
				_ = x.Wait()
				killed.Add(1)
			}
		})
	}
	time.Sleep(length / 3)
	early = stats(t) // programs are running, which makes it larger rather than smaller
	wg.Wait()
	var late map[string]int64
	// what was killed last is still being released
	for over := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		late = stats(t)
		if late["contexts"] == 0 && late["descriptors"] <= early["descriptors"] &&
			late["goroutines"] <= early["goroutines"] || time.Now().After(over) {
			break
		}
	}
	t.Logf("%d runs, %d killed; after a third %v, at the end %v", done.Load(), killed.Load(), early, late)
	if late["contexts"] != 0 || late["objects"] != 0 {
		t.Error("contexts or objects are left")
	}
	for _, k := range []string{"goroutines", "descriptors"} {
		if late[k] > early[k] {
			t.Errorf("%s: %d after a third, %d when nothing runs any more", k, early[k], late[k])
		}
	}
	if late["heap"] > early["heap"]+early["heap"]/2+1<<20 {
		t.Errorf("heap: %d bytes after a third, %d at the end", early["heap"], late["heap"])
	}
}

// stats returns the emulator's counts.
func stats(t *testing.T) (m map[string]int64) {
	t.Helper()
	out, err := exec.Command(filepath.Join(root, ".build/bin/emu"), "control", "stats").Output()
	if err == nil {
		err = json.Unmarshal(out, &m)
	}
	if err != nil {
		t.Error(fmt.Errorf("emu control stats: %w: %s", err, out))
	}
	return m
}
