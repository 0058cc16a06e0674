package testutil

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// NewCgroup makes a cgroup with a controller, moves this process there until the test ends, and returns its directory.
// It is for the VM, whose cgroups nobody else has.
func NewCgroup(t *testing.T, controller string) (dir string) {
	t.Helper()
	const top = "/sys/fs/cgroup"
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(top + "/cgroup.procs"); err != nil {
		check(unix.Mount("none", top, "cgroup2", 0, ""))
		t.Cleanup(func() { check(unix.Unmount(top, unix.MNT_DETACH)) })
	}
	dir = filepath.Join(top, "pureverbs")
	self := []byte(strconv.Itoa(os.Getpid()))
	check(os.WriteFile(top+"/cgroup.subtree_control", []byte("+"+controller), 0))
	check(os.Mkdir(dir, 0o755))
	check(os.WriteFile(dir+"/cgroup.procs", self, 0))
	t.Cleanup(func() {
		check(os.WriteFile(top+"/cgroup.procs", self, 0))
		check(os.Remove(dir))
	})
	return dir
}
