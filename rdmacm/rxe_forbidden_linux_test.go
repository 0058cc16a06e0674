package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/provider"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_CM_Forbidden forbids a process the device file of rdma_cm, by the devices control group of a container and by
// the file's mode. librdmacm returns EPERM also for a kernel whose version it does not know; the errors name the cause.
func TestRXE_CM_Forbidden(t *testing.T) {
	const env = "PUREVERBS_TEST_FORBIDDEN"
	r := testutil.NeedRXE(t)
	r.NeedKernel(t) // control groups, modes of device files
	file := filepath.Join(provider.DeviceDir, provider.CMFile)
	for name, c := range map[string]struct {
		errno syscall.Errno
		text  string
		uid   uint32
	}{
		"control group": {syscall.EPERM, "the devices cgroup of this container or unit forbids it", 0},
		"mode":          {syscall.EACCES, "its mode is 0600 and it belongs to user 0", 65534},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(env) == "" {
				cmd := exec.Command(must(os.Executable())(t), "-test.run=^TestRXE_CM_Forbidden$/^"+
					strings.ReplaceAll(name, " ", "_")+"$", "-test.v", "-test.count=1")
				cmd.Env = append(os.Environ(), env+"="+forbidden(t, file, name == "mode"))
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			if group := os.Getenv(env); group != "mode" {
				ok(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0))
			}
			_, dial := Dial(timeout(t), netip.AddrPortFrom(local(t).Addr(), 1).String(), nil)
			_, listen := Listen(timeout(t), local(t).String(), nil)
			_, channel := NewEventChannel()
			for op, err := range map[string]error{"dial": dial, "listen": listen, "channel": channel} {
				var p *ibv.PermissionError
				if !errors.As(err, &p) || p.Path != file || !errors.Is(err, c.errno) ||
					!strings.Contains(err.Error(), c.text) {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
}

// forbidden sets the mode of a device file to 0600, or makes a control group that may not open it, until the end of the
// test. It returns "mode" or the group's folder.
func forbidden(t *testing.T, file string, mode bool) string {
	var st unix.Stat_t
	ok(t, unix.Stat(file, &st))
	if mode {
		ok(t, os.Chmod(file, 0o600))
		t.Cleanup(func() { ok(t, os.Chmod(file, os.FileMode(st.Mode&0o777))) })
		return "mode"
	}
	all := t.TempDir()
	ok(t, unix.Mount("none", all, "cgroup", 0, "devices"))
	t.Cleanup(func() { ok(t, unix.Unmount(all, unix.MNT_DETACH)) })
	group := filepath.Join(all, "without-rdma-cm")
	ok(t, os.Mkdir(group, 0o700))
	t.Cleanup(func() { ok(t, os.Remove(group)) })
	dev := fmt.Sprintf("c %d:%d rwm", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
	ok(t, os.WriteFile(filepath.Join(group, "devices.deny"), []byte(dev), 0))
	return group
}
