//go:build linux

package verbs

import (
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// ackPatience is how long a thread may wait in the library for another one to acknowledge events.
const ackPatience = 2 * time.Second

// objectSize is more than any object of libibverbs has. The condition that its destruction waits for is in it.
const objectSize = 1024

// userOf returns the library's address of an object that has events.
func userOf(o any) uint64 {
	switch o := o.(type) {
	case *hca.CQ:
		return o.User
	case *hca.QP:
		return o.User
	case *hca.SRQ:
		return o.User
	case *hca.WQ:
		return o.Queue.User
	}
	return 0
}

func delivered(answer any) uint32 {
	switch a := answer.(type) {
	case uapi.DestroyCQResp:
		return a.CompEventsReported + a.AsyncEventsReported
	case uapi.DestroyWQResp:
		return a.EventsReported
	case uapi.EventsResp:
		return a.EventsReported
	}
	return 0
}

// watchAcks looks whether the thread that destroyed an object hangs: the library waits until as many events were
// acknowledged as the kernel says it delivered.
func (c *call) watchAcks(user uint64, answer any) {
	n := delivered(answer)
	if n == 0 || user == 0 || c.s.f.Watch == nil {
		return
	}
	pid, tid, name := c.who.mem().PID, c.who.id(), c.name
	time.AfterFunc(ackPatience, func() {
		if a, ok := guest.FutexWait(tid); !ok || a < user || a >= user+objectSize {
			return
		}
		c.s.f.Lock()
		defer c.s.f.Unlock()
		c.s.f.Watch.Violation(pid, "event-unacked", fmt.Sprintf("%s: the object got %d events; thread %d waits for "+
			"their acknowledgement since %v", name, n, tid, ackPatience))
	})
}
