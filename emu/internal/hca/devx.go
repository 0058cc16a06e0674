//go:build linux

package hca

import "golang.org/x/sys/unix"

// DevxObject is what a command of the adapter's own made, for a program with DevX.
type DevxObject struct {
	Held
	Name string // "DevX QP", for the report of leaks
	Made uint16 // opcode of the command
	Type uint16 // of a general object
	Num  uint32 // the adapter's number, which commands name
	Body []byte // of a general object: as it was made or modified
	// Counters are those of a flow counter, or of a bulk of them.
	Counters []FrameCounter

	Domain  uint32 // of a TIS: the number of its transport domain
	LAGPort uint8  // of a TIS: the port of a bond that it sends from, or 0

	Queue *QP // of a TIR: the receive queue that frames go to

	// Inner is the handle of the object of the same context that does the work, as if a verb had made it, or 0. It goes
	// with this one.
	Inner uint32
	// Free gives back what is in no handle. It may be nil.
	Free func()
}

// AddDevx gives an object its handle.
func AddDevx(c *Context, o *DevxObject) {
	// Its place is before what it may use.
	o.life.order, o.life.end = order{rankRule, o.Name}, o.Free
	c.add(o)
}

// Destroy destroys a DevX object that nothing uses.
func (o *DevxObject) Destroy() unix.Errno {
	if in := o.Context.objects[o.Inner]; in != nil {
		if e := in.Destroy(); e != 0 && !o.Context.Dead {
			return e
		}
	}
	return o.Held.Destroy()
}

// General returns the context's general object of a type with a number, or nil.
func General(c *Context, typ uint16, num uint32) *DevxObject {
	return Lookup(c, func(o *DevxObject) bool { return o.Type == typ && o.Num == num })
}

// CreateTIR makes what a steering rule may name as the receiver of frames: the receive queue with a number.
func CreateTIR(c *Context, rqn uint32) (*DevxObject, unix.Errno) {
	w := Lookup(c, func(o *WQ) bool { return o.Queue.Num == rqn })
	if w == nil {
		return nil, unix.ENOENT
	}
	o := &DevxObject{Name: "DevX TIR", Num: c.Device.NextNumber(), Queue: w.Queue}
	o.Use(w)
	return o, 0
}
