//go:build linux && amd64 && !race

package emu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hostEnv names a test whose second half runs below emu.
const hostEnv = "EMU_HOST_INSIDE"

// inside runs the test that calls it a second time, below emu, and reports whether this is that run. What runs there prints with t what is wrong.
func inside(t *testing.T, flags ...string) bool {
	t.Helper()
	if os.Getenv(hostEnv) == t.Name() {
		return true
	}
	c := exec.Command(emulator(), append(flags, "--", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")...)
	c.Env = append(os.Environ(), hostEnv+"="+t.Name())
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("below emu %v: %v\n%s", flags, err, tail(string(out)))
	}
	return false
}

// emulator is the emulator that is tested.
func emulator() string {
	if e := os.Getenv("EMU_UNDER_TEST"); e != "" {
		return e
	}
	return filepath.Join(root, ".build/bin/emu")
}
