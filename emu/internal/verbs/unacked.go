//go:build linux

package verbs

import (
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// ackPatience is how long a thread may wait in the library for another one to acknowledge events.
const ackPatience = 2 * time.Second

// objectSize is more than any object of libibverbs has. The condition that its destruction waits for is in it.
const objectSize = 1024

// watchAcks looks whether the thread that destroyed an object hangs: the library waits until as many events were
// acknowledged as the kernel says it delivered.
func (c *call) watchAcks(o hca.Object) {
	user, n := o.Common().User, o.Common().AsyncDelivered
	if cq, ok := o.(*hca.CQ); ok {
		n += cq.Delivered
	}
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
