package ucma

import (
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// TestDevices_Shared: each device is opened once for all its users, and stays open.
func TestDevices_Shared(t *testing.T) {
	r := newRig(t)
	r.v.hosts = append(r.v.hosts, &host{name: "mlx5_1", guid: guid, index: 4},
		&host{name: "broken", guid: 9, broken: true})
	a, b := r.bound(abi.RDMA_PS_TCP), r.requested(abi.RDMA_PS_TCP)
	list, all, err := r.GetDevices()
	r.ok(err)
	if r.Verbs(a) != r.Verbs(b) || len(all) != 2 || all[0] != r.Verbs(a) || all[1] == all[0] {
		t.Errorf("contexts %d, %d and %d", r.Verbs(a), r.Verbs(b), all)
	}
	r.k.addr.DeviceIndex = 4 // the GUIDs are the same
	if h := r.bound(abi.RDMA_PS_TCP); r.Verbs(h) != all[1] {
		t.Errorf("context %d, want %d", r.Verbs(h), all[1])
	}
	r.FreeDevices(list)
	r.FreeDevices(list)
	r.ok(r.DestroyID(a))
	r.ok(r.DestroyID(b))
	r.want("opened", len(r.v.opened), 2)
	r.want("closed", r.v.closed, []control.Handle(nil))
}

// TestDevices_Removed: a device that is gone is closed after its last user, and one that is there again is another one.
func TestDevices_Removed(t *testing.T) {
	const unknown = -1
	for _, index := range []int{3, unknown} {
		for _, notice := range []string{"event", "list", "use"} {
			r := newRig(t)
			r.v.hosts[0].index, r.k.addr.DeviceIndex = index, uint32(index)
			h := r.bound(abi.RDMA_PS_TCP)
			old := r.Verbs(h)
			again := &host{name: "mlx5_0", guid: guid, index: index}
			if index != unknown {
				again.index++
			}
			replace := func() {
				r.v.hosts[0].gone = true
				r.v.hosts[0], r.k.addr.DeviceIndex = again, uint32(again.index)
			}
			switch notice {
			case "event":
				r.k.emit(h, abi.RDMA_CM_EVENT_DEVICE_REMOVAL)
				r.get()
				replace()
				r.want("closed with a user", r.v.closed, []control.Handle(nil))
				r.ok(r.DestroyID(h))
			case "list":
				replace()
				r.ok(r.DestroyID(h))
				list, all, err := r.GetDevices()
				r.ok(err)
				if len(all) != 1 || all[0] == old {
					t.Errorf("contexts %d, %d is gone", all, old)
				}
				r.FreeDevices(list)
			case "use":
				replace()
				r.ok(r.DestroyID(h))
			}
			if n := r.bound(abi.RDMA_PS_TCP); r.Verbs(n) == old {
				t.Errorf("%s, index %d: the context of a device that is gone", notice, index)
			}
			if notice != "use" || index == unknown {
				r.want(notice+": closed", r.v.closed, []control.Handle{old})
			}
		}
	}
}

// TestDevices_None: as with librdmacm, nothing can be had without a device.
func TestDevices_None(t *testing.T) {
	r := newRig(t)
	r.v.hosts = nil
	for _, r.v.noVerbs = range []error{nil, syscall.ENOSYS} {
		if _, err := r.CreateEventChannel(); err != syscall.ENODEV {
			t.Error(err)
		}
		if _, _, err := r.GetDevices(); err != syscall.ENODEV {
			t.Error(err)
		}
		if _, _, err := r.GetAddrInfo("127.0.0.1", "1", nil); err != syscall.ENODEV {
			t.Error(err)
		}
	}
}
