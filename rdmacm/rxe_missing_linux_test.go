package rdmacm

import (
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
	"github.com/pureverbs/pureverbs/loader"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// TestRXE_CM_Missing takes away what librdmacm needs of the host, each in a process of its own. librdmacm reports an
// errno that does not tell what is missing; the errors here do, and are those of package ibv.
func TestRXE_CM_Missing(t *testing.T) {
	const env = "PUREVERBS_TEST_MISSING"
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("hides files of the host: runs on the emulated device only")
	}
	file := func(name string) func(*testing.T) string {
		return func(t *testing.T) string { return hide(t, name) + " is missing" }
	}
	for name, c := range map[string]struct {
		hide func(*testing.T) (text string)
		late bool // only a device's address needs it
	}{
		"rdma_cm": {hide: file("rdma_cm")},
		"uverbs0": {hide: file("uverbs0"), late: true},
		"drivers": {hide: noDrivers},
	} {
		t.Run(name, func(t *testing.T) {
			testutil.NeedControl(t)
			if os.Getenv(env) == "" {
				c := exec.Command(must(os.Executable())(t), "-test.run=^TestRXE_CM_Missing$/^"+name+"$", "-test.v",
					"-test.count=1")
				c.Env = append(os.Environ(), env+"=1")
				if name == "drivers" { // or the native control path would need none
					c.Env = append(c.Env, ibv.ControlEnv+"=library")
				}
				if name == "drivers" {
					if os.Geteuid() != 0 {
						return
					}
					c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
				}
				if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			text := c.hide(t)
			check := func(op string, err error) {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %v", op, err)
				}
			}
			_, err := Dial(timeout(t), netip.AddrPortFrom(local(t).Addr(), 1).String(), nil)
			check("dial", err)
			_, err = Listen(timeout(t), local(t).String(), nil)
			check("listen", err)
			if !c.late {
				_, err = NewEventChannel()
				check("channel", err)
				_, err = rsocket.New(rsocket.DomainINET, rsocket.Stream)
				check("rsocket", err)
			}
			if name != "rdma_cm" {
				_, err = ibv.Open(r.Dev[0])
				check("ibv", err)
			}
			if name == "drivers" { // which is none that the library lists
				_, err = ibv.Devices()
				check("devices", err)
			}
		})
	}
}

// hide takes a device file away until the end of the test.
func hide(t *testing.T, name string) (path string) {
	dir := must(os.Open(provider.DeviceDir))(t) // the emulator's folder
	to := name + ".hidden"
	ok(t, unix.Renameat(int(dir.Fd()), name, int(dir.Fd()), to))
	t.Cleanup(func() {
		ok(t, unix.Renameat(int(dir.Fd()), to, int(dir.Fd()), name))
		ok(t, dir.Close())
	})
	return filepath.Join(provider.DeviceDir, name)
}

// noDrivers hides the names of libibverbs' drivers from this process, which has mounts of its own.
func noDrivers(t *testing.T) (config string) {
	ok(t, unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	config = provider.Scan(loader.Report().Libraries[0].Path).Config
	ok(t, unix.Mount("none", config, "tmpfs", 0, ""))
	return config
}
