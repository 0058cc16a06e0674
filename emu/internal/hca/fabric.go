//go:build linux

package hca

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// Fabric is all emulated devices and the wire between them. Its lock guards everything reachable from it; methods of
// this package want it held.
type Fabric struct {
	sync.Mutex
	Config  *config.Config
	Devices []*Device
	Ports   []*Port // of all devices, those that were removed too
	Watch   Watcher

	engine  any // an [Engine]: the file of each kind has what it asks of it
	nextCtx int
	pinned  map[int]uint64 // bytes registered, by process
	parts   parts
}

// Watcher gets, lock held, what strict mode, the trace and fault injection want to know. All methods may be called with
// nil-valued fields.
type Watcher interface {
	// Command comes before a verb is executed; an errno other than 0 is the injected answer, a Reply how it is spoiled.
	Command(c *Context, name string) (unix.Errno, Reply)
	// Violation reports what hardware would punish, or a latent bug of the program.
	Violation(pid int, rule, detail string)
	// Event is one asynchronous event that was put on a context's event file.
	Event(c *Context, typ EventType, element uint64)
}

// charge counts locked memory of a process against the limit.
func (f *Fabric) charge(pid int, n uint64) unix.Errno {
	if lim := f.Config.MemlockLimit; lim != 0 && f.pinned[pid]+n > lim {
		return unix.ENOMEM
	}
	if f.pinned == nil {
		f.pinned = map[int]uint64{}
	}
	f.pinned[pid] += n
	return 0
}

func (f *Fabric) discharge(pid int, n uint64) {
	if f.pinned[pid] -= n; f.pinned[pid] == 0 {
		delete(f.pinned, pid)
	}
}

// PortByGID returns the port that has a GID, or nil.
func (f *Fabric) PortByGID(gid *[16]byte) *Port {
	for _, p := range f.Ports {
		for i := range p.Config.GIDs {
			if p.Config.GIDs[i].GID == *gid && !p.Device.Gone {
				return p
			}
		}
	}
	return nil
}

// PortByLID returns the InfiniBand port that has a LID, or nil.
func (f *Fabric) PortByLID(lid uint16) *Port {
	for _, p := range f.Ports {
		if c := p.Config; c.LID != 0 && lid&^(1<<c.LMC-1) == c.LID && !p.Device.Gone {
			return p
		}
	}
	return nil
}
