//go:build linux

package hca

import "golang.org/x/sys/unix"

// DevxObject is what a command of the adapter's own made, for a program with DevX.
type DevxObject struct {
	Held
	Name  string // "DevX QP", for the report of leaks
	Made  uint16 // opcode of the command
	Type  uint16 // of a general object
	Num   uint32 // the adapter's number, which commands name
	Body  []byte // of a general object: as it was made or modified
	Below int    // of an element of the scheduler: those below it
	// Counters are those of a flow counter, or of a bulk of them.
	Counters []FrameCounter

	Domain  uint32 // of a TIS: the number of its transport domain
	LAGPort uint8  // of a TIS: the port of a bond that it sends from, or 0

	flows int // steering rules that lead here
	Queue *QP // of a TIR: the receive queue that frames go to

	// Inner is the handle of the object of the same context that does the work, as if a verb had made it, or 0. It goes
	// with this one.
	Inner uint32
	// Free gives back what is in no handle; EBUSY keeps the object. It may be nil.
	Free func() unix.Errno
}

// AddDevx gives an object its handle.
func AddDevx(c *Context, o *DevxObject) { c.add(o) }

// Destroy destroys a DevX object that nothing uses.
func (o *DevxObject) Destroy() unix.Errno {
	if o.Free != nil {
		if e := o.Free(); e != 0 && !o.Context.Dead {
			return e
		}
	}
	o.forget()
	return 0
}

// order is before what the object may use.
func (o *DevxObject) order() order { return order{rankRule, o.Name} }

// General returns the context's general object of a type with a number, or nil.
func General(c *Context, typ uint16, num uint32) (found *DevxObject) {
	each(c, func(o *DevxObject) bool {
		if o.Type == typ && o.Num == num {
			found = o
		}
		return found == nil
	})
	return found
}

// CreateTIR makes what a steering rule may name as the receiver of frames: the receive queue with a number.
func CreateTIR(c *Context, rqn uint32) (*DevxObject, unix.Errno) {
	var w *WQ
	each(c, func(o *WQ) bool {
		if o.Queue.Num == rqn {
			w = o
		}
		return w == nil
	})
	if w == nil {
		return nil, unix.ENOENT
	}
	w.refs++
	o := &DevxObject{Name: "DevX TIR", Num: c.Device.NextNumber(), Queue: w.Queue}
	o.Free = func() unix.Errno {
		if e := o.busy(o.flows); e != 0 {
			return e
		}
		w.refs--
		return 0
	}
	return o, 0
}

// Kind is a kind of object that commands name by its number.
type Kind uint8

// Kinds.
const (
	KindPD Kind = iota
	KindCQ
	KindSRQ
)

// ByNumber returns the handle of the context's object of a kind with a number, or 0.
func ByNumber(c *Context, k Kind, num uint32) uint32 {
	for h, o := range c.objects {
		switch o := o.(type) {
		case *PD:
			if k == KindPD && o.Num == num {
				return h
			}
		case *CQ:
			if k == KindCQ && o.Num == num {
				return h
			}
		case *SRQ:
			if k == KindSRQ && o.Num == num {
				return h
			}
		}
	}
	return 0
}
