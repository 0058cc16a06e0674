package link

import (
	"github.com/pureverbs/pureverbs/rdma/internal/credit"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Control counts the frames of a connection about leases, which have credits of their own: see package wire. link.Mu
// guards it.
type Control struct {
	Recv   credit.Receiver
	send   credit.Sender
	Tenant tenant
}

// tenant is the user of frames about leases. link.Mu is held while its methods run, except for ended.
type tenant interface {
	Start()                          // the connection is there
	Receive(h wire.Header, p []byte) // handles a frame; by value, so that no frame is allocated
	Freshen()                        // brings the first frame that waits up to date, which is about to be sent
	Stop()                           // nothing more is sent or posted
	Ended()                          // the queue pair is gone
}

// NewControl returns the counts of a connection with this tenant.
func NewControl(t tenant) Control {
	return Control{credit.NewReceiver(wire.ControlWindow), credit.NewSender(wire.ControlWindow, wire.ControlWindow), t}
}

// fill completes a LIMIT: aux is the limit of frames about leases. A connection without leases has no control.
func (c *Control) fill(h *wire.Header) {
	if c != nil {
		h.Aux = c.Recv.Tell()
	}
}

// limit handles the limit in a LIMIT. It returns what it should be, if it is wrong.
func (c *Control) limit(limit uint32) (want string) {
	if want = c.send.Check(limit, false); want == "" {
		c.send.Raise(limit)
	}
	return want
}

// Owner is the owner of an operation that was submitted to a link's queue.
type Owner interface {
	// Completed is called when the operation has completed. link.Mu is held.
	Completed(failed bool)
}
