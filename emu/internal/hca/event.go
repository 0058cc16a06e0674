//go:build linux

package hca

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// matches finds the records of a completion channel or an event file that are about one object.
func matches(user uint64) func([]byte) bool {
	return func(rec []byte) bool { return binary.NativeEndian.Uint64(rec) == user }
}

// drop takes back the events about an object that the program has not read, and returns how many it has read.
func (c *Context) drop(user uint64, delivered uint32) uint32 {
	if delivered == 0 || c.Dead || c.Async == nil {
		return delivered
	}
	return delivered - uint32(c.Async.Drop(c.PID, func(rec []byte) bool {
		// A port's number may be what another object's handle is: only events of objects count.
		return matches(user)(rec) && EventType(binary.NativeEndian.Uint32(rec[8:])).object()
	}, 16))
}

// object reports whether the event is about a queue and not about a port or the device.
func (t EventType) object() bool {
	switch t {
	case EventDeviceFatal, EventPortActive, EventPortErr, EventLIDChange, EventPKeyChange, EventSMChange,
		EventClientReregister, EventGIDChange:
		return false
	}
	return true
}

// AsyncEvent puts an event on the context's event file, and returns how many the program has to acknowledge: 1, or 0 if
// it wants none.
func (c *Context) AsyncEvent(t EventType, element uint64) (put uint32) {
	if c.Async == nil || c.Dead {
		return 0
	}
	var rec [16]byte
	binary.NativeEndian.PutUint64(rec[:], element)
	binary.NativeEndian.PutUint32(rec[8:], uint32(t))
	if c.Async.Put(rec[:]) == nil { // a program that closed its end wants none
		put = 1
	}
	if w := c.Device.Fabric.Watch; w != nil {
		w.Event(c, t, element)
	}
	return put
}

// Event tells the program of something about the QP.
func (qp *QP) Event(t EventType) {
	qp.AsyncDelivered += qp.Context.AsyncEvent(t, qp.User)
}

// Fatal tells the program that the QP, or the WQ that it is the queue of, failed.
func (qp *QP) Fatal() {
	if qp.Type == WorkQueue {
		qp.Event(EventWQFatal)
	} else {
		qp.Event(EventQPFatal)
	}
}

// Event tells the program of something about the CQ.
func (cq *CQ) Event(t EventType) {
	cq.AsyncDelivered += cq.Context.AsyncEvent(t, cq.User)
}

// Event tells the program of something about the SRQ.
func (s *SRQ) Event(t EventType) {
	s.AsyncDelivered += s.Context.AsyncEvent(t, s.User)
}

// Notify puts a completion event on the CQ's channel.
func (cq *CQ) Notify() {
	if cq.Channel == nil || cq.Context.Dead {
		return
	}
	var rec [8]byte
	binary.NativeEndian.PutUint64(rec[:], cq.User)
	if cq.Channel.Pipe.Put(rec[:]) == nil {
		cq.Delivered++
	}
}

// broadcast tells all contexts of the device.
func (d *Device) broadcast(t EventType, element uint64) {
	for _, c := range d.Contexts {
		c.AsyncEvent(t, element)
	}
}

// SetLink pulls a port's cable, or plugs it in.
func (p *Port) SetLink(up bool) {
	p.Linked = up
	p.changed()
}

// SetInterface follows a port's interface, which was taken up or down, or got another MTU. C: mlx5_netdev_event,
// mlx5_query_port_roce.
func (p *Port) SetInterface(up bool, mtu int) {
	p.Up = up
	if p.MTU != mtu { // nobody is told
		p.MTU, p.Config.ActiveMTU = mtu, p.Config.MTUOf(mtu)
		p.Device.Fabric.Engine.PortChanged(p)
	}
	p.changed()
}

// changed tells the programs that a port went down or up, if it did.
func (p *Port) changed() {
	active := p.Linked && p.Up
	if p.Active == active {
		return
	}
	p.Active = active
	p.Config.State = config.PortDown
	t := EventPortErr
	if active {
		p.Config.State, t = config.PortActive, EventPortActive
	}
	p.Device.Fabric.Engine.PortChanged(p)
	p.Device.broadcast(t, uint64(p.Number))
}

// SetGID changes an entry of a port's table; a zero GID empties it.
func (d *Device) SetGID(n, index int, g config.GID) unix.Errno {
	p := d.port(uint8(n))
	if p == nil || index < 0 || index >= p.Config.GIDTableLen {
		return unix.EINVAL
	}
	for len(p.Config.GIDs) <= index {
		p.Config.GIDs = append(p.Config.GIDs, config.GID{})
	}
	p.Config.GIDs[index] = g
	d.Fabric.Engine.PortChanged(p)
	d.broadcast(EventGIDChange, uint64(n))
	return 0
}

// Remove takes the device away: commands answer EIO from now on, and nothing is executed any more.
func (d *Device) Remove() {
	if d.Gone {
		return
	}
	d.Gone = true
	for _, p := range d.Ports {
		p.Active = false
		d.Fabric.Engine.PortChanged(p)
	}
	d.broadcast(EventDeviceFatal, 0)
	// The kernel's channels give EIO from then on; a pipe can only end.
	for _, c := range d.Contexts {
		for _, ch := range c.channels {
			ch.Pipe.Close()
		}
		for _, p := range c.answers {
			p.Close()
		}
	}
}
