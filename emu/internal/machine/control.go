//go:build linux && (amd64 || arm64)

package machine

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/strict"
)

// request is a request that the control socket accepts.
type request struct {
	name  string
	usage string
	text  string
	args  [2]int // how many, at least and at most
	do    func(m *machine, args []string) (any, error)
}

// Requests returns the usage of each request that the control socket accepts, and what it does.
func Requests() [][2]string {
	list := make([][2]string, len(requests))
	for i, r := range requests {
		list[i] = [2]string{r.usage, r.text}
	}
	return list
}

const faultRequest = "fault add SPEC | list | clear [ID]"

var requests = []request{
	{"fault", faultRequest, "inject faults", [2]int{1, 2}, (*machine).controlFault},
	{"port", "port DEVICE PORT up|down", "take a port up or down", [2]int{3, 3}, (*machine).controlPort},
	{"gid", "gid DEVICE PORT INDEX GID|none", "change an entry of a GID table", [2]int{4, 4}, (*machine).controlGID},
	{"devices", "devices", "the devices with their ports and GID tables", [2]int{0, 0}, (*machine).controlDevices},
	{"remove", "remove DEVICE", "take a device away", [2]int{1, 1}, (*machine).controlRemove},
	{"paging", "paging DEVICE", "pages that came and went on demand", [2]int{1, 1},
		of(func(d *hca.Device) any { return d.Paged })},
	{"blocks", "blocks DEVICE", "blocks of compressed completions that were written", [2]int{1, 1},
		of(func(d *hca.Device) any { return d.Blocks })},
	{"trace", "trace on|off", "start or stop the trace that --trace made", [2]int{1, 1}, (*machine).controlTrace},
	{"listeners", "listeners", "ports on which somebody listens in rdma_cm", [2]int{0, 0}, (*machine).controlListeners},
	{"receivers", "receivers", "how many raw packet QPs have a rule and a receive", [2]int{0, 0},
		(*machine).controlReceivers},
	{"strict", "strict", "what strict mode has found", [2]int{0, 0}, (*machine).controlStrict},
	{"stats", "stats", "objects, memory and descriptors of the emulator", [2]int{0, 0}, (*machine).controlStats},
}

// control answers a request of the control socket.
func (m *machine) control(words []string) (any, error) {
	for _, r := range requests {
		if r.name != words[0] {
			continue
		}
		args := words[1:]
		if len(args) < r.args[0] || len(args) > r.args[1] {
			return nil, errors.New("usage: " + r.usage)
		}
		m.fabric.Lock()
		defer m.fabric.Unlock()
		m.fresh()
		return r.do(m, args)
	}
	usages := make([]string, len(requests))
	for i, r := range requests {
		usages[i] = r.usage
	}
	if words[0] == "help" {
		return usages, nil
	}
	return nil, fmt.Errorf("no request %q; there are: %s", words[0], strings.Join(usages, "; "))
}

// activeFault is how the control socket shows a fault.
type activeFault struct {
	ID    int    `json:"id"`
	Spec  string `json:"spec"`
	Seen  uint64 `json:"seen"` // operations that it may befall
	Fired uint64 `json:"fired"`
}

func (m *machine) controlFault(args []string) (any, error) {
	switch {
	case args[0] == "add" && len(args) == 2:
		f, err := m.faults.Add(args[1])
		if err != nil {
			return nil, err
		}
		m.hook()
		return f.ID, nil
	case args[0] == "list" && len(args) == 1:
		list := []activeFault{}
		for _, f := range m.faults.List() {
			list = append(list, activeFault{f.ID, f.Text, f.Seen, f.Fired})
		}
		return list, nil
	case args[0] == "clear":
		id := 0
		if len(args) == 2 {
			var err error
			if id, err = strconv.Atoi(args[1]); err != nil || id < 1 {
				return nil, fmt.Errorf("no fault %q; want an id that fault list shows", args[1])
			}
		}
		n := m.faults.Clear(id)
		if n == 0 && id != 0 {
			return nil, fmt.Errorf("no fault %d", id)
		}
		m.hook()
		return n, nil
	}
	return nil, errors.New("usage: " + faultRequest)
}

func (m *machine) device(name string) (*hca.Device, error) {
	var names []string
	for _, d := range m.fabric.Devices {
		if d.Config.Name == name {
			return d, nil
		}
		names = append(names, d.Config.Name)
	}
	return nil, fmt.Errorf("no device %q; there are: %s", name, strings.Join(names, ", "))
}

// port reads a device and one of its ports.
func (m *machine) port(device, port string) (*hca.Device, int, error) {
	d, err := m.device(device)
	if err != nil {
		return nil, 0, err
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > len(d.Ports) {
		return nil, 0, fmt.Errorf("no port %q of %s; want 1 to %d", port, device, len(d.Ports))
	}
	return d, n, nil
}

func (m *machine) controlPort(args []string) (any, error) {
	d, n, err := m.port(args[0], args[1])
	if err != nil {
		return nil, err
	}
	if args[2] != "up" && args[2] != "down" {
		return nil, fmt.Errorf("want up or down, not %q", args[2])
	}
	return nil, m.setPort(d, n, args[2] == "up")
}

func (m *machine) controlGID(args []string) (any, error) {
	d, n, err := m.port(args[0], args[1])
	if err != nil {
		return nil, err
	}
	length := d.Ports[n-1].Config.GIDTableLen
	index, err := strconv.Atoi(args[2])
	if err != nil || index < 0 || index >= length {
		return nil, fmt.Errorf("no index %q in the GID table; want 0 to %d", args[2], length-1)
	}
	var gid config.Addr
	if args[3] != "none" {
		if gid, err = config.ParseAddr(args[3]); err != nil {
			return nil, err
		}
	}
	return nil, m.setGID(d, n, index, gid)
}

// device, port and gid are how the control socket shows the devices that are there.
type device struct {
	Name  string `json:"name"`
	Ports []port `json:"ports"`
}

type port struct {
	Number int    `json:"number"`
	Link   string `json:"link"` // Ethernet or InfiniBand
	Up     bool   `json:"up"`
	Netdev string `json:"netdev"`
	GIDs   []gid  `json:"gids"`
}

type gid struct {
	Index  int        `json:"index"`
	GID    netip.Addr `json:"gid"`
	Type   string     `json:"type"`
	Netdev string     `json:"netdev"`
	VLAN   int        `json:"vlan"`
}

func (m *machine) controlDevices([]string) (any, error) {
	list := []device{}
	for _, d := range m.fabric.Devices {
		if d.Gone {
			continue
		}
		out := device{Name: d.Config.Name}
		for i, p := range d.Ports {
			o := port{Number: i + 1, Link: p.Config.LinkLayer.String(), Up: p.Active,
				Netdev: p.Config.Netdev, GIDs: []gid{}}
			for k := range p.Config.GIDTableLen {
				if g := p.GID(k); g != nil {
					o.GIDs = append(o.GIDs, gid{k, netip.AddrFrom16(g.GID), g.Type.String(), g.Netdev, g.VLAN})
				}
			}
			out.Ports = append(out.Ports, o)
		}
		list = append(list, out)
	}
	return list, nil
}

// of is a request about a device.
func of(tell func(*hca.Device) any) func(*machine, []string) (any, error) {
	return func(m *machine, args []string) (any, error) {
		d, err := m.device(args[0])
		if err != nil {
			return nil, err
		}
		return tell(d), nil
	}
}

func (m *machine) controlRemove(args []string) (any, error) {
	d, err := m.device(args[0])
	if err != nil {
		return nil, err
	}
	return nil, m.remove(d)
}

func (m *machine) controlTrace(args []string) (any, error) {
	switch {
	case args[0] != "on" && args[0] != "off":
		return nil, fmt.Errorf("want on or off, not %q", args[0])
	case m.trace == nil:
		return nil, errors.New("there is no trace: start emu with --trace")
	}
	m.trace.Set(args[0] == "on")
	return nil, nil
}

func (m *machine) controlListeners([]string) (any, error) { return m.cm.Listeners(), nil }

func (m *machine) controlReceivers([]string) (any, error) {
	n := 0
	for _, d := range m.fabric.Devices {
		n += d.Receivers()
	}
	return n, nil
}

func (m *machine) controlStrict([]string) (any, error) {
	if m.report == nil {
		return nil, errors.New("start emu with --strict")
	}
	es := m.report.Entries()
	if es == nil {
		es = []strict.Entry{}
	}
	return es, nil
}

// stats is what must not grow, however many programs come and go.
type stats struct {
	Calls       uint64 `json:"calls"` // of programs, that the emulator was asked about
	Contexts    int    `json:"contexts"`
	Objects     int    `json:"objects"` // of all contexts
	Goroutines  int    `json:"goroutines"`
	Descriptors int    `json:"descriptors"`
	Heap        uint64 `json:"heap"` // bytes in use after a collection
	Mapped      uint64 `json:"mapped"`
	MaxRSS      uint64 `json:"max_rss"`
}

func (m *machine) controlStats([]string) (any, error) {
	s := stats{Calls: m.calls.Load()}
	for _, d := range m.fabric.Devices {
		s.Contexts += len(d.Contexts)
		for _, c := range d.Contexts {
			s.Objects += len(c.Handles())
		}
	}
	s.Goroutines = runtime.NumGoroutine()
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		s.Descriptors = len(fds)
	}
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.Heap = mem.HeapAlloc
	own := guest.StatusOf(os.Getpid())
	mapped, _ := own.Number("VmSize", 10)
	most, _ := own.Number("VmHWM", 10)
	s.Mapped, s.MaxRSS = mapped<<10, most<<10
	return s, nil
}
