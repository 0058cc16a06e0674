package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"testing"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// world is a machine that is built of parts.
type world struct {
	*bed
	*sysfstest.World
}

// part adds something to a machine, or changes it.
type part func(*world)

func newWorld(t *testing.T, parts []part) *world {
	b := newBare(t)
	w := &world{b, sysfstest.NewWorld(b.tree)}
	w.bed.MTUs = func(dev string) (map[int]int, error) {
		active := map[int]int{}
		for port, mtu := range w.World.MTUs[dev] {
			active[port] = min(4096, largestMTU(mtu))
		}
		return active, w.open
	}
	for _, p := range parts {
		p(w)
	}
	w.tree.Addresses(append(w.Addrs, "lo 127.0.0.1/8")...)
	return w
}

// nic is an adapter of a kind.
func nic(of string, options ...sysfstest.Option) part {
	return func(w *world) { sysfstest.NIC(of, options...)(w.World) }
}

// plain is an adapter with one port.
func plain(layer, rate, of string) part {
	return func(w *world) { sysfstest.Plain(layer, rate, of)(w.World) }
}

// The parts of adapters and of ports.
var (
	ib, roce, in, board, imageGUID, nodeGUID = sysfstest.IB, sysfstest.RoCE, sysfstest.In, sysfstest.Board,
		sysfstest.ImageGUID, sysfstest.NodeGUID
	onNUMA, slow, below, frame             = sysfstest.OnNUMA, sysfstest.Slow, sysfstest.Below, sysfstest.Frame
	subnet, keys, count, from, long, byMAC = sysfstest.Subnet, sysfstest.Keys, sysfstest.Count, sysfstest.From,
		sysfstest.Long, sysfstest.ByMAC
	isVF, isSF, off6, stable, noGIDs = sysfstest.IsVF, sysfstest.IsSF, sysfstest.Off6, sysfstest.Stable,
		sysfstest.NoGIDs
	onlyV2, onlyV1, unplug, waits = sysfstest.OnlyV2, sysfstest.OnlyV1, sysfstest.Unplug, sysfstest.Waits
)

// Parts of machines.

// writes writes files of sysfs: path, text, path, text.
func writes(files ...string) part {
	return func(w *world) {
		for i := 0; i < len(files); i += 2 {
			w.tree.Write(files[i], files[i+1])
		}
	}
}

// proc writes files of procfs.
func proc(files ...string) part {
	return func(w *world) {
		for i := 0; i < len(files); i += 2 {
			w.bed.proc(files[i], files[i+1])
		}
	}
}

// foreign adds a GID of another network namespace at the end of the first device's table.
func foreign(address, netdev string) part {
	return func(w *world) { w.tree.GID("mlx5_0", 1, 90, long(address), sysfstest.V2, netdev) }
}

// given makes the machine a container that has these device files of its devices'.
func given(files ...string) part {
	return func(w *world) {
		w.Container = "/.dockerenv"
		w.Access = func(file string) error {
			for _, f := range append(files, "rdma_cm") {
				if path.Base(file) == f {
					return nil
				}
			}
			return &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
		}
	}
}

// nodes are NUMA nodes.
func nodes(n int) part {
	return func(w *world) {
		for i := range n {
			w.tree.Mkdir(fmt.Sprintf("devices/system/node/node%d", i))
		}
	}
}

// without removes a file of sysfs.
func without(name string) part { return func(w *world) { w.tree.Remove(name) } }

// also changes anything.
func also(change func(*bed)) part { return func(w *world) { change(w.bed) } }

// each repeats a part.
func each(n int, of func(i int) part) part {
	return func(w *world) {
		for i := range n {
			of(i)(w)
		}
	}
}

// TestParts: a part that is added changes what it says, so that no test passes because of a part that does nothing.
func TestParts(t *testing.T) {
	w := newWorld(t, []part{nic("cx6dx", roce("100 Gb/sec (2X HDR)", "10.0.0.1/24", off6, below("vlan")), slow(8, 8)),
		nic("vf", isVF, ib("100 Gb/sec (4X EDR)", keys("0x7fff")), nodeGUID(noGUID))})
	r := Examine(w.Host, "rdmaperf")
	if len(r.Devices) != 2 {
		t.Fatalf("%+v", r.Devices)
	}
	a, b := r.Devices[0], r.Devices[1]
	if a.Model != "ConnectX-6 Dx" || a.Function != "PF" || a.PCI.Link.Width != 8 || a.PCI.Link.MaxWidth != 16 ||
		a.Links[0].Netdev != "eth3.vlan" || a.Links[0].Address != "10.0.0.1" || a.Links[0].MTU != 4096 ||
		a.Ports[0].RateBits != 100e9 {
		t.Errorf("%+v %+v", a, a.PCI.Link)
	}
	if b.Function != "VF" || b.NodeGUID != noGUID || b.Ports[0].LinkLayer != hostfacts.InfiniBand ||
		b.PCI.Link.Width != 0 {
		t.Errorf("%+v", b)
	}
}
