//go:build !race

package bed

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// boot runs scripts/vm with args around a payload folder that holds script, and
// returns its exit code and its two streams.
func boot(t *testing.T, script string, flags []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if os.Getenv("PUREVERBS_TEST_TIER") != "" {
		t.Skip("boots a VM, and runs in one")
	}
	if images, _ := filepath.Glob("../../.build/vm/base-*/base.cpio"); len(images) == 0 {
		t.Skip("boots a VM, of which there is no image: make setup test-unit PKG=./test/bed")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "t.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, diag bytes.Buffer
	c := exec.Command("../../scripts/vm", append(append(append([]string{"run"}, flags...), dir, "--", "sh",
		"t.sh"), args...)...)
	c.Stdout, c.Stderr = &out, &diag
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return code, out.String(), diag.String()
}

// needFull skips a test but in a full run: each VM takes a quarter of a minute of two processors.
func needFull(t *testing.T) {
	t.Helper()
	if os.Getenv("PUREVERBS_FULL") == "" {
		t.Skip("full runs only, by make test-full: boots a VM")
	}
}

func TestVM_Exit(t *testing.T) {
	t.Parallel()
	needFull(t)
	dir := t.TempDir()
	const script = `echo "$PWD|$NAME|$1|$2|$PUREVERBS_TEST_TIER"; echo kept >/out/file; exit 42`
	code, out, diag := boot(t, script, []string{"-t", "900", "-o", dir, "-e", "NAME=it's"}, "a b", `$"c'`)
	if code != 42 {
		t.Errorf("exit code %d, want 42\n%s%s", code, out, diag)
	}
	if want := `/payload|it's|a b|$"c'|rxe`; strings.TrimSpace(out) != want {
		t.Errorf("output %q, want %q", out, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "kept\n" {
		t.Errorf("/out/file: %q, %v", b, err)
	}
}

func TestVM_Hang(t *testing.T) {
	t.Parallel()
	needFull(t)
	code, out, diag := boot(t, "echo started; sleep 1000", []string{"-t", "20"})
	if code != 124 || !strings.Contains(diag, "stopped after 20 s") {
		t.Errorf("exit code %d, want 124\n%s%s", code, out, diag)
	}
}

func TestVM_Panic(t *testing.T) {
	t.Parallel()
	needFull(t)
	code, out, diag := boot(t, "echo started; echo c >/proc/sysrq-trigger; sleep 1000", []string{"-t", "900"})
	if code != 126 || strings.Count(diag, "the guest died") != 2 || !strings.Contains(diag, "trying once more") {
		t.Errorf("exit code %d, want 126 after one retry\n%s%s", code, out, diag)
	}
}

// TestVM_NoBoot has a QEMU whose guest never begins: it is ended and started once more. As the real one it returns 0
// when it is asked to end.
func TestVM_NoBoot(t *testing.T) {
	dir := t.TempDir()
	starts := filepath.Join(dir, "starts")
	const qemu = `#!/bin/sh
echo start >>"$STARTS"
while [ "$1" != -pidfile ]; do shift; done
echo $$ >"$2"
trap 'kill $!; exit 0' TERM
sleep 1000 &
wait
`
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(qemu), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("STARTS", starts)
	t.Setenv("VM_BEGIN", "1")
	code, out, diag := boot(t, "echo started", []string{"-t", "900"})
	if code != 126 || !strings.Contains(diag, "the kernel did not boot, trying once more") {
		t.Errorf("exit code %d, want 126 after one retry\n%s%s", code, out, diag)
	}
	if b, err := os.ReadFile(starts); err != nil || strings.Count(string(b), "start") != 2 {
		t.Errorf("started %q, want twice: %v", b, err)
	}
}

func TestVM_NoDevice(t *testing.T) {
	t.Parallel()
	needFull(t)
	// No veth accepts this MTU, so the pair is not created.
	code, out, diag := boot(t, "echo started", []string{"-t", "900", "-m", "100000"})
	if code != 125 || strings.Contains(out, "started") {
		t.Errorf("exit code %d, want 125 without running the command\n%s%s", code, out, diag)
	}
}
