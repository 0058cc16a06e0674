//go:build amd64 && !race

package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuReadmes runs the command of each README as it is printed, and wants every line that the README says. It also
// runs each program with -h, and with a wrong flag.
func TestEmuReadmes(t *testing.T) {
	testutil.NeedEmu(t)
	bin, err := filepath.Abs(filepath.Join(repository, ".build", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "emu")); err != nil {
		t.Skip("no .build/bin/emu: make build")
	}
	for dir, what := range map[string]string{".": "./examples/...", "examples/grpc": "."} {
		build := exec.Command("go", "build", "-trimpath", "-o", bin+"/", what)
		build.Dir = filepath.Join(repository, dir)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	for _, name := range folders(t) {
		for flag, code := range map[string]int{"-h": 0, "--no-such-flag": 2} {
			c := exec.Command(filepath.Join(bin, name), flag)
			out, err := c.CombinedOutput()
			if c.ProcessState.ExitCode() != code || !strings.Contains(string(out), name) {
				t.Errorf("%s %s: %v, want exit status %d\n%s", name, flag, err, code, out)
			}
		}
		for _, path := range []string{"direct", "ops"} {
			if path == "ops" && name != "grpc" { // the others run with both in package examples
				continue
			}
			t.Run(name+"/"+path, func(t *testing.T) {
				t.Parallel()
				r := readme(t, name)
				ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
				defer cancel()
				c := exec.CommandContext(ctx, "sh", "-c", r.emulated)
				c.Dir = t.TempDir()
				if err := os.Symlink(bin, filepath.Join(c.Dir, "bin")); err != nil {
					t.Fatal(err)
				}
				c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PUREVERBS_DATAPATH="+path)
				c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
				c.WaitDelay = 5 * time.Second
				out, err := c.CombinedOutput()
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				for line := range strings.Lines(r.prints) {
					want := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line)), "…", ".+")
					if !regexp.MustCompile(want).Match(out) {
						t.Errorf("no line %s in\n%s", line, out)
					}
				}
			})
		}
	}
}
