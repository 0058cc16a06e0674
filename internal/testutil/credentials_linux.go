package testutil

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const aloneEnv = "PUREVERBS_TEST_ALONE"

// Alone runs a test again in a process of its own, as root, and reports whether this is that process.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(aloneEnv) == t.Name() {
		return true
	}
	// In a user namespace that an ordinary user made, nobody may change groups.
	if b, _ := os.ReadFile("/proc/self/setgroups"); os.Geteuid() != 0 || string(b) == "deny\n" {
		t.Skip("changes the credentials of a process: needs root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v", "-test.count=1",
		"-test.timeout="+(2*Patience).String())
	cmd.Env = append(os.Environ(), aloneEnv+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in a process of its own: %v\n%s", err, out)
	}
	return false
}

// A Change is a call that changes the credentials of each thread, or of the calling one. Each then has a struct cred of
// its own, though all say the same as before.
type Change struct {
	Name string
	Do   func() error
}

// Changes are all that Go programs can make.
var Changes = []Change{
	{"Setgroups", func() error { return syscall.Setgroups(nil) }},
	{"Setgid", func() error { return syscall.Setgid(0) }},
	{"Setuid", func() error { return syscall.Setuid(0) }},
	{"Setegid", func() error { return syscall.Setegid(0) }},
	{"Seteuid", func() error { return syscall.Seteuid(0) }},
	{"Setregid", func() error { return syscall.Setregid(0, 0) }},
	{"Setreuid", func() error { return syscall.Setreuid(0, 0) }},
	{"Setresgid", func() error { return syscall.Setresgid(0, 0, 0) }},
	{"Setresuid", func() error { return syscall.Setresuid(0, 0, 0) }},
	{"Setfsgid", func() error { return unix.Setfsgid(0) }},
	{"Setfsuid", func() error { return unix.Setfsuid(0) }},
	{"Capset", func() error { // of the calling thread
		var data [2]unix.CapUserData
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := unix.Capget(&header, &data[0]); err != nil {
			return err
		}
		return unix.Capset(&header, &data[0])
	}},
}

// OnThreads runs goroutines that keep some threads busy until the end of the test, so that calls of a goroutine are
// seldom all on one thread.
func OnThreads(t testing.TB) {
	stop := make(chan struct{})
	for range 4 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = unix.Nanosleep(&unix.Timespec{Nsec: 200_000}, nil)
				}
			}
		}()
	}
	t.Cleanup(func() { close(stop) })
}
