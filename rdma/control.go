package rdma

import (
	"github.com/pureverbs/pureverbs/rdma/internal/credit"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// control counts the frames of a connection about leases, which have credits of their own: see package wire. link.mu
// guards it.
type control struct {
	recv   credit.Receiver
	send   credit.Sender
	tenant tenant
}

// tenant is the user of frames about leases. link.mu is held while its methods run, except for ended.
type tenant interface {
	start()                          // the connection is there
	receive(h wire.Header, p []byte) // handles a frame; by value, so that no frame is allocated
	freshen()                        // brings the first frame that waits up to date, which is about to be sent
	stop()                           // nothing more is sent or posted
	ended()                          // the queue pair is gone
}

func newControl(t tenant) control {
	return control{credit.NewReceiver(wire.ControlWindow), credit.NewSender(wire.ControlWindow, wire.ControlWindow), t}
}

// fill completes a LIMIT: aux is the limit of frames about leases. A connection without leases has no control.
func (c *control) fill(h *wire.Header) {
	if c != nil {
		h.Aux = c.recv.Tell()
	}
}

// limit handles the limit in a LIMIT. It returns what it should be, if it is wrong.
func (c *control) limit(limit uint32) (want string) {
	if want = c.send.Check(limit, false); want == "" {
		c.send.Raise(limit)
	}
	return want
}

// owner is the owner of an operation that was submitted to a link's queue.
type owner interface {
	// completed is called when the operation has completed. link.mu is held.
	completed(failed bool)
}
