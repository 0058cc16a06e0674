//go:build linux

package hca

import "encoding/binary"

// matches finds the records of a completion channel or an event file that are about one object.
func matches(user uint64) func([]byte) bool {
	return func(rec []byte) bool { return binary.NativeEndian.Uint64(rec) == user }
}

// drop takes back the events about an object that the program has not read, and returns how many it has read.
func (c *Context) drop(user uint64, delivered uint32) uint32 {
	if delivered == 0 || c.Dead || c.Async == nil {
		return delivered
	}
	return delivered - uint32(c.Async.Drop(func(rec []byte) bool {
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
