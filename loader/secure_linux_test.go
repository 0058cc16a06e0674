//go:build !pureverbs_native

package loader

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSecure runs a program with more rights than its caller, who names a library
// in the environment: it must not be loaded.
func TestSecure(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root makes setuid programs: as root, make test-unit PKG=./loader")
	}
	built, err := os.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "secure")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Flags&unix.ST_NOSUID != 0 {
		t.Skip("SKIPPED: /tmp is mounted nosuid")
	}
	planted := dir + "/lib"
	if err := os.Mkdir(planted, 0o755); err != nil {
		t.Fatal(err)
	}
	compile(t, planted+"/libibverbs.so.1", string(IBVerbs), "testdata/planted.c")

	// install makes a program of the user mode bits and capabilities given.
	install := func(t *testing.T, name string, mode os.FileMode, capability int) string {
		t.Helper()
		exe := dir + "/" + name
		if err := os.WriteFile(exe, built, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(exe, 0o755|mode); err != nil {
			t.Fatal(err)
		}
		if capability >= 0 {
			// struct vfs_cap_data (linux/capability.h), revision 2, effective.
			cap := binary.LittleEndian.AppendUint32(nil, 0x02000001)
			cap = append(binary.LittleEndian.AppendUint32(cap, 1<<capability), make([]byte, 12)...)
			if err := unix.Setxattr(exe, "security.capability", cap, 0); err != nil {
				t.Skipf("SKIPPED: no capabilities on files in /tmp: %v", err)
			}
		}
		return exe
	}
	run := func(t *testing.T, exe string, args ...string) string {
		t.Helper()
		c := exec.Command(exe, append([]string{"-open"}, args...)...)
		c.Dir = "/"
		c.Env = []string{PathEnv + "=" + planted, "RDMAV_DRIVERS=" + planted + "/evil"}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skipf("SKIPPED: the capability is not to be had here: %v", err)
		}
		var ee *exec.ExitError
		if err != nil && !(errors.As(err, &ee) && ee.ExitCode() == 3) {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
		return string(out)
	}
	const loaded = "planted library is loaded"
	const netRaw = 13 // CAP_NET_RAW

	t.Run("plain", func(t *testing.T) {
		// What the others must not do.
		if out := run(t, install(t, "plain", 0, -1)); !strings.Contains(out, loaded+", RDMAV_DRIVERS="+planted) {
			t.Errorf("a program without rights of its own does not load the caller's library:\n%s", out)
		}
	})
	for _, tt := range []struct {
		name       string
		mode       os.FileMode
		capability int
	}{
		{"setuid", os.ModeSetuid, -1},
		{"setgid", os.ModeSetgid, -1},
		{"capability", 0, netRaw},
	} {
		t.Run(tt.name, func(t *testing.T) {
			exe := install(t, tt.name, tt.mode, tt.capability)
			out := run(t, exe)
			if strings.Contains(out, loaded) {
				t.Errorf("the caller's library was loaded:\n%s", out)
			}
			for _, want := range []string{"ignored", PathEnv + "=" + planted, "more rights than its caller"} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
			// What the program itself asks for counts, and libibverbs does not see by
			// which drivers its caller would like to be served.
			if out := run(t, exe, "-path", planted); !strings.Contains(out, loaded+", RDMAV_DRIVERS=(unset)") {
				t.Errorf("with SetPath:\n%s", out)
			}
		})
	}
}
