// Package testutil names the test tiers and what each one needs.
//
// A test states its tier by calling one of the Need functions first. If the tier is not there, the test skips and names
// the command that runs it. If the runner promised the tier (PUREVERBS_TEST_TIER names it), the test fails instead.
package testutil

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/loader"
)

// TierEnv names the environment variable by which a runner promises a tier:
// "rxe" inside the SoftRoCE VM, "siw" inside that with iWARP, "emu" under the emulated ConnectX, "hw" on
// adapters of this machine.
const TierEnv = "PUREVERBS_TEST_TIER"

// EmuEnv names the environment variable by which a runner promises that the emulator and our programs are built, in
// .build/bin.
const EmuEnv = "PUREVERBS_TEST_EMU"

// DevicesEnv names the environment variable with the device of tier hw, or with one for each end: "mlx5_0,mlx5_1".
const DevicesEnv = "PUREVERBS_HW_DEVICES"

// FramesEnv names the environment variable that lets tests of tier hw send Ethernet frames and make steering rules.
// Some of them take the host's own traffic.
const FramesEnv = "PUREVERBS_HW_FRAMES"

// PackEnv names the environment variable by which the runner of the pack for tier hw says that the host may lack
// programs.
const PackEnv = "PUREVERBS_HW_PACK"

// EmulatedDevices are the specifications of tier emu's two adapters. test/tiers has them for the tests of all packages.
var EmulatedDevices = [2]string{"mlx5_0,dmabuf=memfd", "mlx5_1"}

// RXE describes two devices that reach each other: the SoftRoCE devices of the VM, which are connected by a veth pair
// in one network namespace, two emulated ones, or two adapters.
type RXE struct {
	Dev  [2]string // device names
	Net  [2]string // their netdevs
	IP   [2]string // IPv4 addresses of the netdevs
	Host [2]string // addresses by which TCP reaches them
	Port uint8     // port number, the same on both
	// GID is the index of the IPv4-mapped RoCE v2 GID. On hardware it is -1, ibv.BestGID, if the two ends have it at
	// different indices, and GIDs has both.
	GID  int
	GIDs [2]int

	Emulated bool // the kernel does not know the devices: ip, tc and the like have no effect
	Hardware bool // real adapters, whose links and addresses must not be changed
	IB       bool // InfiniBand; hardware only, where IP may be empty
	IWARP    bool // siw, in place of SoftRoCE: no GIDs of addresses, datagrams, atomics, windows and immediate data
}

// NeedEmu skips a test that starts the emulator itself, if nobody has built it.
func NeedEmu(t testing.TB) {
	t.Helper()
	if os.Getenv(EmuEnv) == "" && os.Getenv(TierEnv) == "" {
		t.Skip("starts the emulator: " + command(t, "test-emu"))
	}
}

// command returns the command, to be run in the repository, that runs a test.
func command(t testing.TB, target string) string {
	test, _, _ := strings.Cut(t.Name(), "/")
	wd, _ := os.Getwd()
	for root := wd; ; root = filepath.Dir(root) {
		mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module github.com/pureverbs/pureverbs\n")) {
			dir, _ := filepath.Rel(root, wd)
			return fmt.Sprintf("make %s PKG=./%s RUN=%s", target, filepath.ToSlash(dir), test)
		}
		if root == filepath.Dir(root) {
			return fmt.Sprintf("make %s RUN=%s", target, test)
		}
	}
}

// NeedLogic is NeedRXE for what SoftRoCE cannot make different, and takes long in the VM: it runs there in a full run.
func NeedLogic(t testing.TB) RXE {
	t.Helper()
	r := NeedRXE(t)
	if !r.Emulated && !r.Hardware && !Full() {
		t.Skip("tells nothing of the device: in the VM only make test-full runs it")
	}
	return r
}

// NeedSIW returns two connected devices of iWARP, or skips the test if there are none.
func NeedSIW(t testing.TB) RXE {
	t.Helper()
	if os.Getenv(TierEnv) != "siw" {
		t.Skip("needs iWARP: " + command(t, "test-siw"))
	}
	return NeedRXE(t)
}

// NeedRXE returns two connected devices, or skips the test if there are none.
func NeedRXE(t testing.TB) RXE {
	t.Helper()
	NeedControl(t)
	r := RXE{
		Dev:  [2]string{"rxe0", "rxe1"},
		Net:  [2]string{"v0", "v1"},
		IP:   [2]string{"10.8.0.1", "10.8.0.2"},
		Host: [2]string{"10.8.0.1", "10.8.0.2"},
		Port: 1,
		GID:  1,
	}
	switch tier := os.Getenv(TierEnv); tier {
	case "rxe":
	case "siw":
		r.Dev, r.GID, r.IWARP = [2]string{"siw0", "siw1"}, 0, true
	case "emu":
		r = RXE{Dev: [2]string{"mlx5_0", "mlx5_1"}, Host: [2]string{"127.0.0.1", "127.0.0.1"}, Port: 1, Emulated: true}
	case "hw":
		a, b, two := strings.Cut(os.Getenv(DevicesEnv), ",")
		if !two {
			b = a
		}
		r = RXE{Dev: [2]string{a, b}, Port: 1, Hardware: true}
	default:
		t.Skipf("needs two RDMA devices: %s, or test-rxe", command(t, "test-emu"))
	}
	r.GIDs = [2]int{r.GID, r.GID}
	for i, d := range r.Dev {
		if _, err := os.Stat("/sys/class/infiniband/" + d); err != nil {
			t.Fatalf("tier %s was promised, but %s is not there: %v", os.Getenv(TierEnv), d, err)
		}
		if r.Emulated {
			if err := r.find(i); err != nil {
				t.Fatal(err)
			}
		}
		if r.Hardware {
			if err := r.findReal(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r.Hardware {
		if r.GID = r.GIDs[0]; r.GID != r.GIDs[1] {
			r.GID = -1
		}
	}
	return r
}

// NeedFrames skips a test that sends Ethernet frames or makes steering rules, unless the devices are emulated or the
// user of an adapter has asked for it. On one port frames do not come back.
func (r *RXE) NeedFrames(t testing.TB) {
	t.Helper()
	switch {
	case !r.Hardware:
	case os.Getenv(FramesEnv) != "1":
		t.Skipf("sends frames or takes those of the host: only with %s=1", FramesEnv)
	case r.IB:
		t.Skip("sends frames: InfiniBand has none")
	case r.Dev[0] == r.Dev[1]:
		t.Skip("sends frames: needs two ports")
	}
}

// find looks up the IPv4 GID of a device.
func (r *RXE) find(i int) error {
	port := fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/", r.Dev[i], r.Port)
	// Tests call NeedRXE for each connection, and the emulator opens each file in sysfs for them.
	if f, ok := found.Load(port); ok {
		f := f.(foundGID)
		if gid, err := os.ReadFile(fmt.Sprintf("%sgids/%d", port, f.n)); err == nil && string(gid) == f.gid {
			r.GID, r.GIDs[i], r.Net[i], r.IP[i] = f.n, f.n, f.netdev, f.ip
			return nil
		}
	}
	for n := range 256 {
		gid, err := os.ReadFile(fmt.Sprintf("%sgids/%d", port, n))
		if err != nil {
			break
		}
		typ, _ := os.ReadFile(fmt.Sprintf("%sgid_attrs/types/%d", port, n))
		hex, v4 := strings.CutPrefix(strings.TrimSpace(string(gid)), "0000:0000:0000:0000:0000:ffff:")
		var a, b uint16
		if _, err := fmt.Sscanf(hex, "%x:%x", &a, &b); !v4 || err != nil || string(typ) != "RoCE v2\n" {
			continue
		}
		netdev, err := os.ReadFile(fmt.Sprintf("%sgid_attrs/ndevs/%d", port, n))
		r.GID, r.GIDs[i], r.Net[i] = n, n, strings.TrimSpace(string(netdev))
		r.IP[i] = fmt.Sprintf("%d.%d.%d.%d", a>>8, a&0xff, b>>8, b&0xff)
		if err == nil {
			found.Store(port, foundGID{n, string(gid), r.Net[i], r.IP[i]})
		}
		return err
	}
	return fmt.Errorf("%s has no RoCE v2 GID of an IPv4 address", r.Dev[i])
}

// found has the GID that find has found, by the port's folder. It is true while the port's table has the GID there.
var found sync.Map // of foundGID

type foundGID struct {
	n               int
	gid, netdev, ip string
}

// NeedIP skips a test that finds devices by an IP address of their port.
func (r *RXE) NeedIP(t testing.TB) {
	t.Helper()
	if r.IP[0] == "" || r.IP[1] == "" {
		t.Skip("needs an IP address of the port, which InfiniBand without IPoIB has none of")
	}
}

// NeedRoCE skips a test of what InfiniBand does not have.
func (r *RXE) NeedRoCE(t testing.TB) {
	t.Helper()
	if r.IB {
		t.Skip("is about RoCE: the port is InfiniBand")
	}
}

// findReal looks up the port of an adapter, its GID and its address. The name of the device says nothing.
func (r *RXE) findReal(i int) error {
	dir := "/sys/class/infiniband/" + r.Dev[i] + "/ports/"
	ports, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, p := range ports {
		number, err := strconv.ParseUint(p.Name(), 10, 8)
		state, _ := os.ReadFile(dir + p.Name() + "/state")
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(state)), "ACTIVE") {
			continue
		}
		if r.Port = uint8(number); i == 1 && r.Dev[0] != r.Dev[1] && r.Port != 1 {
			return fmt.Errorf("%s: port %d is the active one; tests with two devices use port 1 of both", r.Dev[i],
				number)
		}
		link, _ := os.ReadFile(dir + p.Name() + "/link_layer")
		if r.IB = strings.TrimSpace(string(link)) == "InfiniBand"; !r.IB {
			err := r.find(i)
			r.Host[i] = r.IP[i]
			return err
		}
		r.GIDs[i] = 0 // the port's own; LIDs are the addresses
		r.ipoib(i)
		return nil
	}
	return fmt.Errorf("%s has no active port", r.Dev[i])
}

// ipoib looks up an IPv4 address of a netdev on the device. There may be none.
func (r *RXE) ipoib(i int) {
	nets, _ := os.ReadDir("/sys/class/infiniband/" + r.Dev[i] + "/device/net")
	for _, n := range nets {
		dev, err := net.InterfaceByName(n.Name())
		if err != nil {
			continue
		}
		addrs, _ := dev.Addrs()
		for _, a := range addrs {
			if ip, _, err := net.ParseCIDR(a.String()); err == nil && ip.To4() != nil {
				r.Net[i], r.IP[i], r.Host[i] = n.Name(), ip.String(), ip.String()
				return
			}
		}
	}
}

// SetLink sets a device's link up or down. It is up again when the test ends.
func (r *RXE) SetLink(t testing.TB, i int, up bool) {
	t.Helper()
	if r.Hardware {
		t.Skip("takes a link down: not on a real adapter")
	}
	state := map[bool]string{true: "up", false: "down"}
	if !up {
		t.Cleanup(func() { r.SetLink(t, i, true) })
	}
	if r.Emulated {
		control(t, "port", r.Dev[i], "1", state[up])
		return
	}
	run(t, "/bin/ip", "link", "set", r.Net[i], state[up])
}

// ChangeGIDs adds a GID to a device's port if more is true, and removes it otherwise.
func (r *RXE) ChangeGIDs(t testing.TB, i int, more bool) {
	t.Helper()
	if r.Hardware {
		t.Skip("changes addresses: not on a real adapter")
	}
	const address, index = "10.8.9.9", "200"
	switch {
	case r.Emulated && more:
		control(t, "gid", r.Dev[i], "1", index, address)
	case r.Emulated:
		control(t, "gid", r.Dev[i], "1", index, "none")
	default:
		run(t, "/bin/ip", "addr", map[bool]string{true: "add", false: "del"}[more], address+"/32", "dev", r.Net[i])
	}
}

// control sends a command to the emulator that runs the test.
func control(t testing.TB, words ...string) {
	t.Helper()
	run(t, "emu", append([]string{"control"}, words...)...)
}

func run(t testing.TB, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

// NeedKernel skips the test if the devices are not the kernel's SoftRoCE. It is for tests of things that an emulated
// device does not have: the kernel's network, modes of device files, limits of processes.
func (r *RXE) NeedKernel(t testing.TB) {
	t.Helper()
	if r.Emulated || r.Hardware {
		t.Skip("is about the kernel: runs in the SoftRoCE VM only: " + command(t, "test-rxe"))
	}
}

// NeedProgram returns the path of a program: a stock tool, or one of ours. If it is missing, the test fails where a
// tier was promised, and skips elsewhere.
func NeedProgram(t testing.TB, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv(PackEnv) != "" {
			t.Skipf("%s is not in PATH: the pack takes what the host has", name)
		}
		if os.Getenv(TierEnv) != "" {
			t.Fatalf("tier %s was promised, but %s is not in PATH", os.Getenv(TierEnv), name)
		}
		t.Skipf("%s is not in PATH: make setup build", name)
	}
	return p
}

// NeedLibrary skips the test if libibverbs cannot be loaded. In CI it is installed.
func NeedLibrary(t testing.TB) {
	t.Helper()
	if _, err := loader.Open(loader.IBVerbs); err != nil {
		t.Skipf("needs libibverbs, which make setup installs: %s: %v", command(t, "test-unit"), err)
	}
}

// Fault makes the emulator inject a fault, as by emu --fault, until the test ends.
//
// Preconditions: r.Emulated.
func (r *RXE) Fault(t testing.TB, spec string) {
	t.Helper()
	t.Cleanup(func() { control(t, "fault", "clear") })
	control(t, "fault", "add", spec)
}
