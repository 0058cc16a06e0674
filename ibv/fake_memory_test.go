package ibv

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

func TestFake_NUMA(t *testing.T) {
	s := fakeSide(t, nil)
	tr := sysfstest.New(t)
	tr.Device("fake0", "pci0000:00/0000:00:01.0", "mlx5_core", "0002:c903:0000:0000")
	tr.Device("fake1", "", "", "0002:c903:0000:0001")
	t.Setenv("SYSFS_PATH", tr.Root)
	const any = -1
	for _, c := range []struct {
		numa   NUMA
		device string
		sysfs  string
		want   int
		text   string
	}{
		{NUMA{}, "fake0", "1", any, "any"},
		{NUMAAny, "fake0", "1", any, "any"},
		{NUMADevice, "fake0", "1", 1, "device"},
		{NUMADevice, "fake0", "0", 0, "device"},
		{NUMADevice, "fake0", "-1", any, "device"}, // what the kernel says on a machine of one node
		{NUMADevice, "fake0", "4294967296", any, "device"},
		{NUMADevice, "fake0", "much", any, "device"},
		{NUMADevice, "fake1", "1", any, "device"}, // a software device
		{NUMADevice, "gone", "1", any, "device"},
		{NUMANode(0), "fake0", "1", 0, "node 0"},
		{NUMANode(3), "fake0", "1", 3, "node 3"},
	} {
		tr.Write("devices/pci0000:00/0000:00:01.0/numa_node", c.sysfs)
		got := any
		if n := c.numa.of(c.device); n != nil {
			got = *n
		}
		if got != c.want || c.numa.String() != c.text {
			t.Errorf("%v for %s at node %s is node %d, want %d", c.numa, c.device, c.sysfs, got, c.want)
		}
	}
	// A node that this process cannot have is no failure where it was not named.
	tr.Write("devices/pci0000:00/0000:00:01.0/numa_node", "1023")
	for _, numa := range []NUMA{NUMAAny, NUMADevice} {
		mr := must(s.pd.AllocMR(4096, LocalWrite, &MemOptions{NUMA: numa}))(t)
		ok(t, mr.Close())
	}
	for _, n := range []int{-1, -5, 1023, 1024, 1 << 32} {
		_, err := s.pd.AllocMR(4096, LocalWrite, &MemOptions{NUMA: NUMANode(n)})
		var ne *dma.NodeError
		if !errors.As(err, &ne) || ne.Node != n || !strings.Contains(err.Error(), "online are") {
			t.Errorf("node %d: %v", n, err)
		}
		if (n < 0 || n > 1023) && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("node %d: %v", n, err)
		}
	}
	_, err := s.pd.AllocMR(4096, LocalWrite, &MemOptions{HugePages: 9})
	wantErr(t, err, syscall.EINVAL, "HugePages(9)")
}

// The one failure of Rereg that comes after the change leaves an MR of the new
// memory, which stays pinned; after the others it is as it was, or lost.
func TestFake_ReregFailsAfterTheChange(t *testing.T) {
	s := fakeSide(t, nil)
	qp := s.newQP(t, nil)
	ok(t, qp.Connect(must(qp.Endpoint(1, 1))(t), nil))
	for _, code := range []int{-1, -2, -3, -4, -5} {
		mr := must(s.pd.AllocMR(4096, LocalWrite|RemoteWrite, nil))(t)
		old := mr.Addr()
		buf := make([]byte, 8192)
		failing(t, "ibv_rereg_mr", syscall.EINVAL)
		set(t, "rereg.code", code)
		wantErr(t, mr.Rereg(&ReregOptions{Buf: buf}), syscall.EINVAL)
		unset(t, "fail.ibv_rereg_mr")
		if code != -3 {
			if mr.Addr() != old || mr.Len() != 4096 {
				t.Errorf("code %d: %d bytes at %#x, before at %#x", code, mr.Len(), mr.Addr(), old)
			}
			ok(t, mr.Close())
			continue
		}
		if mr.Len() != 8192 || &mr.Bytes()[0] != &buf[0] || mr.Addr() == old {
			t.Errorf("%d bytes at %#x after the change, before at %#x", mr.Len(), mr.Addr(), old)
		}
		post(t, qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 64)},
			Remote: mr.Remote().At(8192 - 64)})
		s.good(t, 1)
		ok(t, mr.Close())
	}
}

// TestFake_ReregUnchanged: refusals after which the MR is not lost, though C says so.
func TestFake_ReregUnchanged(t *testing.T) {
	s := fakeSide(t, nil)
	set(t, "rereg.code", -4)
	for _, c := range []struct {
		has, access AccessFlags
		errno       syscall.Errno // of C; 0: it is not called
		want        string
	}{
		{LocalWrite | MWBind, LocalWrite, syscall.EBUSY, "memory windows are bound"},
		{LocalWrite, LocalWrite, syscall.EOPNOTSUPP, "not support"},
		{LocalWrite, RemoteWrite, 0, "with LocalWrite"},
		{LocalWrite, RemoteAtomic, 0, "with LocalWrite"},
		{LocalWrite, 1 << 15, 0, "access"},
	} {
		mr := closing(t, must(s.pd.AllocMR(4096, c.has, nil))(t))
		failing(t, "ibv_rereg_mr", c.errno)
		err := mr.Rereg(&ReregOptions{Access: &c.access})
		wantErr(t, err, nil, c.want, "the MR is unchanged")
		if strings.Contains(err.Error(), "lost") || c.errno != 0 && !errors.Is(err, c.errno) {
			t.Errorf("%v: %v", c.access, err)
		}
		unset(t, "fail.ibv_rereg_mr")
	}
	unset(t, "rereg.code")
	mr := closing(t, must(s.pd.AllocMR(4096, LocalWrite, nil))(t))
	access := LocalWrite | RemoteWrite
	ok(t, mr.Rereg(&ReregOptions{Access: &access}))
}
