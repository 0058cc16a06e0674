package mlx5

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/internal/kernel/nldev"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// host is a kernel with devices, and counts how often netlink is asked.
type host struct {
	t       *testing.T
	tree    *sysfstest.Tree
	v       *Verbs
	netlink map[string]nldev.Device
	err     error
	asked   int
}

func newHost(t *testing.T) *host {
	h := &host{t: t, tree: sysfstest.New(t), v: New(), netlink: make(map[string]nldev.Device)}
	h.v.root, h.v.live = sysfs.Root(h.tree.Root), true
	h.v.netlink = func() (map[string]nldev.Device, error) {
		h.asked++
		return h.netlink, h.err
	}
	return h
}

// plug makes a device, which netlink names unless silent.
func (h *host) plug(name, file string, guid uint64, silent bool) {
	h.tree.Device(name, "pci0000:00/0000:00:01.0/"+file, "mlx5_core", "0000:0000:0000:0000")
	h.tree.Write("class/infiniband/"+name+"/device/vendor", "0x15b3")
	h.tree.Write("class/infiniband_verbs/"+file+"/ibdev", name)
	h.tree.Write("class/infiniband_verbs/"+file+"/dev", "231:192")
	h.tree.Write("class/infiniband_verbs/"+file+"/abi_version", "1")
	if !silent {
		h.netlink[name] = nldev.Device{Index: 7, Driver: driverID, GUID: guid, Type: 1,
			File: nldev.File{Name: file, Number: 231<<8 | 192, ABI: 1}}
	}
}

// move renames an entry of sysfs. What is there no longer keeps its inode, so that no other entry gets it.
func (h *host) move(from, to string) {
	h.t.Helper()
	if err := os.Rename(filepath.Join(h.tree.Root, from), filepath.Join(h.tree.Root, to)); err != nil {
		h.t.Fatal(err)
	}
}

// want lists the devices, and returns their handles.
func (h *host) want(what string, asked int, names ...string) (handles []handle) {
	h.t.Helper()
	before := h.asked
	l, err := h.v.list()
	if err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	var got []string
	for _, d := range l.devices {
		got = append(got, d.name)
		handles = append(handles, h.v.handleOf(d))
	}
	if !slices.Equal(got, names) || h.asked-before != asked {
		h.t.Errorf("%s: %v with %d questions, want %v with %d", what, got, h.asked-before, names, asked)
	}
	return handles
}

// TestList_Kept: the kernel is asked again when an entry of sysfs has come, gone, changed its name or its place, and
// only then. Devices that are still there keep their handles. One that comes again has another one.
func TestList_Kept(t *testing.T) {
	h := newHost(t)
	h.plug("mlx5_0", "uverbs0", 1, false)
	first := h.want("at first", 1, "mlx5_0")
	if again := h.want("unchanged", 0, "mlx5_0"); !slices.Equal(again, first) {
		t.Errorf("handles %v became %v", first, again)
	}
	h.plug("mlx5_1", "uverbs1", 2, true) // its file is named by sysfs, as before Linux 5.1
	both := h.want("another device", 1, "mlx5_0", "mlx5_1")
	if both[0] != first[0] {
		t.Error("the first device has another handle")
	}
	h.want("unchanged", 0, "mlx5_0", "mlx5_1")

	h.move("class/infiniband/mlx5_1", "class/infiniband/other")
	h.tree.Write("class/infiniband_verbs/uverbs1/ibdev", "other")
	h.want("another name", 1, "mlx5_0", "other")

	h.move("class/infiniband_verbs/uverbs1", "gone")
	h.want("a file that is gone", 1, "mlx5_0")

	h.move("class/infiniband_verbs/uverbs0", "gone0")
	h.tree.Write("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0")
	if again := h.want("the same device again", 1, "mlx5_0"); again[0] == first[0] {
		t.Error("a device that came again has its old handle")
	}
}

// TestList_NotKept: what could not be read, or is no sysfs of the kernel, is read again.
func TestList_NotKept(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(h *host)
		want []string
	}{
		{"netlink does not answer", func(h *host) { h.err = errors.New("no answer") }, []string{"mlx5_0"}},
		{"a copy of sysfs", func(h *host) { h.v.live = false }, []string{"mlx5_0"}},
		{"a device file without a device", func(h *host) { h.tree.Mkdir("class/infiniband_verbs/uverbs3") },
			[]string{"mlx5_0"}},
		{"a name without a device", func(h *host) {
			h.plug("mlx5_2", "uverbs2", 3, true)
			h.move("class/infiniband/mlx5_2", "gone")
		}, []string{"mlx5_0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.plug("mlx5_0", "uverbs0", 1, false)
			tt.do(h)
			h.want("at first", 1, tt.want...)
			h.want("again", 1, tt.want...)
		})
	}
}

// TestDevice_Found: a file that was there is looked for again once it could not be opened.
func TestDevice_Found(t *testing.T) {
	d := &device{facts: facts{node: uverbs.Node{Name: "no device has this name", Number: 1}}}
	if d.exists() {
		t.Error("a file that is not there was found")
	}
	d.checked.Store(true)
	d.found.Store(true)
	if !d.exists() {
		t.Error("it was looked for again")
	}
	if _, err := openFile(sysfs.DefaultRoot(), d); !errors.Is(err, fs.ErrNotExist) || d.exists() {
		t.Errorf("open: %v; exists still: %v", err, d.exists())
	}
}
