//go:build linux && (amd64 || arm64)

package machine

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/engine"
	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/sysfs"
)

// newMachine returns a machine that runs no program, in the network of the test.
func newMachine(t *testing.T, devices ...string) *machine {
	t.Helper()
	c, err := Configure(devices, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Fix()
	tree, err := sysfs.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	faults, err := fault.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := hca.New(c)
	m := &machine{tree: tree, ifaces: map[string]*iface{}, fabric: f, eng: engine.New(f, engine.Config{}),
		faults: faults}
	f.SetEngine(m.eng)
	f.Watch = m
	return m
}

// ask sends a request of the control socket, and returns the answer as JSON, or the error.
func (m *machine) ask(words string) string {
	v, err := m.control(strings.Fields(words))
	if err != nil {
		return err.Error()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestRequests compares the table of requests with what it says of itself, and sends each with too few and too many
// words.
func TestRequests(t *testing.T) {
	m := newMachine(t)
	var names []string
	for i, r := range requests {
		if slices.Contains(names, r.name) {
			t.Errorf("%s is there twice", r.name)
		}
		names = append(names, r.name)
		if word, _, _ := strings.Cut(r.usage, " "); word != r.name || Requests()[i] != [2]string{r.usage, r.text} {
			t.Errorf("request %s, usage %q, listed as %q", r.name, r.usage, Requests()[i])
		}
		for _, n := range []int{r.args[0] - 1, r.args[1] + 1} {
			if n < 0 {
				continue
			}
			if got := m.ask(r.name + strings.Repeat(" x", n)); got != "usage: "+r.usage {
				t.Errorf("%s with %d words: %s", r.name, n, got)
			}
		}
		if !strings.Contains(m.ask("shout"), r.usage) || !strings.Contains(m.ask("help"), r.usage) {
			t.Errorf("%q is not among the requests that there are", r.usage)
		}
	}
}

// TestRefused sends requests about what is not there. Each answer names the value, and what would do.
func TestRefused(t *testing.T) {
	m := newMachine(t, "mlx5_0", "mlx5_1,ports=2")
	for words, want := range map[string]string{
		"port mlx5_9 1 up":           `no device "mlx5_9"; there are: mlx5_0, mlx5_1`,
		"port mlx5_0 2 up":           `no port "2" of mlx5_0; want 1 to 1`,
		"port mlx5_1 0 up":           `no port "0" of mlx5_1; want 1 to 2`,
		"port mlx5_1 one up":         `no port "one" of mlx5_1; want 1 to 2`,
		"port mlx5_1 2 sideways":     `want up or down, not "sideways"`,
		"gid mlx5_0 1 256 none":      `no index "256" in the GID table; want 0 to 255`,
		"gid mlx5_0 1 -1 none":       `no index "-1" in the GID table; want 0 to 255`,
		"remove mlx5_2":              `no device "mlx5_2"; there are: mlx5_0, mlx5_1`,
		"paging mlx5_2":              `no device "mlx5_2"; there are: mlx5_0, mlx5_1`,
		"fault clear 0":              `no fault "0"; want an id that fault list shows`,
		"fault clear 7":              "no fault 7",
		"fault add":                  "usage: " + faultRequest,
		"fault list all":             "usage: " + faultRequest,
		"gid mlx5_0 1 5 10.1.2.3/24": `gid "10.1.2.3/24" is neither an IPv6 nor an IPv4 address: write fe80::1`,
	} {
		if got := m.ask(words); !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", words, got, want)
		}
	}
}

// shown returns what sysfs says of a port of mlx5_0.
func shown(t *testing.T, m *machine, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(m.tree.Root(), "sys/class/infiniband/mlx5_0/ports/1", file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestPortRequest(t *testing.T) {
	m := newMachine(t)
	for _, x := range []struct{ to, state string }{{"down", "1: DOWN"}, {"down", "1: DOWN"}, {"up", "4: ACTIVE"}} {
		if got := m.ask("port mlx5_0 1 " + x.to); got != "null" {
			t.Fatal(got)
		}
		if p := m.fabric.Devices[0].Ports[0]; p.Active != (x.to == "up") || shown(t, m, "state") != x.state {
			t.Errorf("%s: active %v, sysfs %q, want %q", x.to, p.Active, shown(t, m, "state"), x.state)
		}
	}
}

func TestGIDRequest(t *testing.T) {
	m := newMachine(t)
	p := m.fabric.Devices[0].Ports[0]
	was := *p.GID(3)
	for _, x := range []struct {
		index int
		gid   string
		typ   config.GIDType
	}{{3, "10.1.2.3", was.Type}, {0, "fe80::1", p.GID(0).Type}, {9, "2001:db8::7", config.GIDTypeRoCEv2}} {
		at := strconv.Itoa(x.index)
		if got := m.ask("gid mlx5_0 1 " + at + " " + x.gid); got != "null" {
			t.Fatal(got)
		}
		g := p.GID(x.index)
		if g == nil || g.GID.IP() != netip.MustParseAddr(x.gid) || g.Type != x.typ || g.Netdev != was.Netdev {
			t.Errorf("entry %d is %+v, want %s, of %v", x.index, g, x.gid, x.typ)
		}
		if want := config.Addr(netip.MustParseAddr(x.gid).As16()); shown(t, m, "gids/"+at) != want.String() {
			t.Errorf("sysfs shows %s, want %s", shown(t, m, "gids/"+at), want)
		}
		if !strings.Contains(m.ask("devices"), `"index":`+at+`,"gid":"`) {
			t.Errorf("devices does not show entry %d", x.index)
		}
		if m.ask("gid mlx5_0 1 " + at + " none"); p.GID(x.index) != nil {
			t.Errorf("entry %d is not empty", x.index)
		}
	}
}

// TestAddresses follows addresses of an interface: each has an entry of both versions of RoCE, in the places that are
// free.
func TestAddresses(t *testing.T) {
	m := newMachine(t)
	p := m.fabric.Devices[0].Ports[0]
	n := &config.Netdev{Name: p.Config.Netdev}
	var before []config.GID
	for i := range p.Config.GIDTableLen {
		if g := p.GID(i); g != nil {
			before = append(before, *g)
		}
	}
	m.dropGIDs(p, func(g *config.GID) bool { return *g == before[1] })
	ip := netip.MustParseAddr("192.0.2.7")
	for range 2 { // the second time it is there
		m.addGIDs(n, p, ip)
	}
	var at []int
	for i := range p.Config.GIDTableLen {
		if g := p.GID(i); g != nil && g.GID.IP() == ip {
			at = append(at, i)
		}
	}
	if !slices.Equal(at, []int{1, len(before)}) || p.GID(at[0]).Type != config.GIDTypeRoCEv1 ||
		p.GID(at[1]).Type != config.GIDTypeRoCEv2 {
		t.Errorf("entries %v", at)
	}
	m.dropGIDs(p, func(g *config.GID) bool { return g.Netdev == n.Name })
	for i := range p.Config.GIDTableLen {
		if g := p.GID(i); g != nil && g.Netdev == n.Name {
			t.Errorf("entry %d is left: %+v", i, g)
		}
	}
}

// TestFaultHooks has the engine ask at the points where a fault is active, and nowhere else.
func TestFaultHooks(t *testing.T) {
	m := newMachine(t)
	h := &m.eng.Hooks
	for spec, is := range map[string]func() bool{
		"rnr":           func() bool { return h.AtWQE != nil && h.AtCQE == nil && h.AtDoorbell == nil },
		"cqe-lost":      func() bool { return h.AtWQE == nil && h.AtCQE != nil && h.AtDoorbell == nil },
		"doorbell-lost": func() bool { return h.AtWQE == nil && h.AtCQE == nil && h.AtDoorbell != nil },
		"enomem":        func() bool { return h.AtWQE == nil && h.AtCQE == nil && h.AtDoorbell == nil },
	} {
		id := m.ask("fault add " + spec)
		if !is() {
			t.Errorf("%s: %+v", spec, *h)
		}
		if list := m.ask("fault list"); !strings.Contains(list, `"spec":"`+spec+`"`) {
			t.Errorf("%s: %s", spec, list)
		}
		if got := m.ask("fault clear " + id); got != "1" || h.AtWQE != nil || h.AtCQE != nil || h.AtDoorbell != nil {
			t.Errorf("clear %s: %s, %+v", spec, got, *h)
		}
	}
}

// TestFaultKinds accounts for each kind: the engine carries it out, a command does, or the machine.
func TestFaultKinds(t *testing.T) {
	engines := []fault.Kind{fault.RNR, fault.RetryExceeded, fault.RemoteAccess, fault.Flush, fault.BitFlip,
		fault.QPFatal, fault.MWBind, fault.PageFault, fault.ReceiveOrder, fault.WrongOwner, fault.CQELost,
		fault.CQEDelayed, fault.CQError, fault.DoorbellLost}
	for k := fault.RNR; k <= fault.DeviceRemoval; k++ {
		_, spoils := spoiled[k]
		n := 0
		for _, is := range []bool{slices.Contains(engines, k), spoils, k == fault.Errno, k.Machine()} {
			if is {
				n++
			}
		}
		if commands := fault.Kinds[k].At == fault.AtCommand; n != 1 || commands != (spoils || k == fault.Errno) {
			t.Errorf("%v: %d ways to carry it out", k, n)
		}
	}
}

func TestPaths(t *testing.T) {
	m := newMachine(t)
	f := &files{tree: m.tree}
	for p, want := range map[string]string{
		m.tree.Root() + "/sys/class": "/sys/class", m.tree.Root(): "", m.tree.Root() + "x/sys": "", "/sys/class": "",
	} {
		got, ok := f.seen(p)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s is seen as %q, %v; want %q", p, got, ok, want)
		}
	}
	for flags, want := range map[int]int{
		unix.O_RDWR: unix.O_RDWR, unix.O_PATH: 0, unix.O_PATH | unix.O_DIRECTORY | unix.O_RDWR: unix.O_DIRECTORY,
		unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC: unix.O_NOFOLLOW | unix.O_CLOEXEC,
	} {
		if got := readable(flags); got != want {
			t.Errorf("open flags %#x read as %#x, want %#x", flags, got, want)
		}
	}
	for err, want := range map[error]unix.Errno{nil: 0, unix.ENOENT: unix.ENOENT, os.ErrClosed: unix.EIO} {
		if got := errno(err); got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
}
