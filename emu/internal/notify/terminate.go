//go:build linux

package notify

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// grace is what descendants get between SIGTERM and SIGKILL.
const grace = 200 * time.Millisecond

// terminate ends all descendants of a process that reaps them, whatever they do against it. It returns only when there
// are none.
func terminate(root int) {
	left := descendants(root)
	for _, pid := range left {
		_ = unix.Kill(pid, unix.SIGTERM)
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	for end := time.Now().Add(grace); len(left) > 0 && time.Now().Before(end); left = descendants(root) {
		time.Sleep(2 * time.Millisecond)
	}
	for ; len(left) > 0; left = descendants(root) {
		// What is stopped cannot fork while the others are killed.
		stopped := map[int]bool{}
		for round := 0; round < 100 && len(stopped) < len(left); round++ {
			for _, pid := range left {
				stopped[pid] = true
				_ = unix.Kill(pid, unix.SIGSTOP)
			}
			left = descendants(root)
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// descendants are the living processes below root.
func descendants(root int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	parent := make(map[int]int, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		f := guest.Stat(pid) // its state, its parent
		if len(f) < 2 || f[0][0] == 'Z' || f[0][0] == 'X' {
			continue
		}
		parent[pid], _ = strconv.Atoi(string(f[1]))
	}
	var out []int
	for pid := range parent {
		p := parent[pid]
		for n := 0; p > 1 && p != root && n < len(parent); n++ {
			p = parent[p]
		}
		if p == root {
			out = append(out, pid)
		}
	}
	return out
}
