//go:build !race

package binaries

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStaticSecure runs a static program that has more rights than its caller, who chooses a control path by the
// environment: it does not obey.
func TestStaticSecure(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes setuid programs: as root, make test-unit PKG=./test/binaries")
	}
	dir, err := os.MkdirTemp("/tmp", "secure")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(t.TempDir(), "rdmaperf")
	build := exec.Command("go", "build", "-trimpath", "-tags=pureverbs_native", "-o", built, "./cmd/perf/rdmaperf")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	const obeyed = "PUREVERBS_CONTROL"
	for _, tt := range []struct {
		name       string
		mode       os.FileMode
		capability bool
		obeys      bool
	}{
		{name: "plain", obeys: true},
		{name: "setuid", mode: os.ModeSetuid},
		{name: "setgid", mode: os.ModeSetgid},
		{name: "capability", capability: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			exe := filepath.Join(dir, tt.name)
			copyFile(t, exe, built)
			if err := os.Chmod(exe, 0o755|tt.mode); err != nil {
				t.Fatal(err)
			}
			if tt.capability {
				// struct vfs_cap_data (linux/capability.h), revision 2, effective: CAP_NET_RAW.
				cap := binary.LittleEndian.AppendUint32(nil, 0x02000001)
				cap = append(binary.LittleEndian.AppendUint32(cap, 1<<unix.CAP_NET_RAW), make([]byte, 12)...)
				if err := unix.Setxattr(exe, "security.capability", cap, 0); err != nil {
					t.Skipf("no capabilities on files in /tmp: %v", err)
				}
			}
			for _, choice := range []string{"library", "nonsense"} {
				c := exec.Command(exe, "write", "bw", "-d", "none0")
				c.Dir, c.Env = "/", []string{"PUREVERBS_CONTROL=" + choice}
				c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
				out, err := c.CombinedOutput()
				if errors.Is(err, syscall.EPERM) {
					t.Skipf("the capability is not to be had here: %v", err)
				}
				got := strings.Contains(string(out), obeyed) || strings.Contains(string(out), "libibverbs")
				if err == nil || got != tt.obeys {
					t.Errorf("%s=%s: %v, obeyed %t, want %t\n%s", obeyed, choice, err, got, tt.obeys, out)
				}
			}
		})
	}
}
