//go:build linux

package hca

import "golang.org/x/sys/unix"

// DevxObject is what a command of the adapter's own made, for a program with DevX.
type DevxObject struct {
	Context *Context
	Handle  uint32
	Name    string // "DevX QP", for the report of leaks
	Made    uint16 // opcode of the command
	Type    uint16 // of a general object
	Num     uint32 // the adapter's number, which commands name
	Body    []byte // of a general object: as it was made or modified
	Below   int    // of an element of the scheduler: those below it
	// Counters are those of a flow counter, or of a bulk of them.
	Counters []FrameCounter

	Domain  uint32 // of a TIS: the number of its transport domain
	LAGPort uint8  // of a TIS: the port of a bond that it sends from, or 0

	flows int // steering rules that lead here
	Queue *QP // of a TIR: the receive queue that frames go to

	// Inner is the handle of the object of the same context that does the work, as if a verb had made it, or 0. It goes
	// with this one.
	Inner uint32
	// Destroy gives back what is in no handle; EBUSY keeps the object. It may be nil.
	Destroy func() unix.Errno
}

// The rank of DevX objects among those that a release destroys: before what they may use.
func (o *DevxObject) rank() int { return 0 }

// AddDevx gives an object its handle.
func (c *Context) AddDevx(o *DevxObject) {
	o.Context = c
	o.Handle = c.add(o)
}

// DestroyDevx destroys a DevX object that nothing uses.
func (c *Context) DestroyDevx(handle uint32) unix.Errno {
	o, e := find[*DevxObject](c, handle)
	if e != 0 {
		return e
	}
	if o.Destroy != nil {
		if e := o.Destroy(); e != 0 && !c.Dead {
			return e
		}
	}
	delete(c.objects, handle)
	return 0
}

// General returns the context's general object of a type with a number, or nil.
func (c *Context) General(typ uint16, num uint32) *DevxObject {
	for _, v := range c.objects {
		if o, ok := v.(*DevxObject); ok && o.Type == typ && o.Num == num {
			return o
		}
	}
	return nil
}

// CreateTIR makes what a steering rule may name as the receiver of frames: the receive queue with a number.
func (c *Context) CreateTIR(rqn uint32) (*DevxObject, unix.Errno) {
	for _, h := range c.Handles() {
		if w, ok := c.objects[h].(*WQ); ok && w.Queue.Num == rqn {
			w.refs++
			o := &DevxObject{Name: "DevX TIR", Num: c.Device.NextNumber(), Queue: w.Queue}
			o.Destroy = func() unix.Errno {
				if o.flows > 0 && !c.Dead {
					return unix.EBUSY
				}
				w.refs--
				return 0
			}
			return o, 0
		}
	}
	return nil, unix.ENOENT
}

// NextNumber returns a number for an object that has nothing but a number.
func (d *Device) NextNumber() uint32 {
	d.devxNumber++
	return d.devxNumber & 0xffffff
}

// ReserveQPNs returns the first of n QPNs, a power of two, that no QP will have before release.
func (d *Device) ReserveQPNs(n uint32) (first uint32, release func(), ok bool) {
	from := (FirstQPN + d.mostQPs() + n - 1) &^ (n - 1)
	for first = from; first+n <= maxQPN; first += n {
		if !d.reserved[first] {
			if d.reserved == nil {
				d.reserved = map[uint32]bool{}
			}
			d.reserved[first] = true
			return first, func() { delete(d.reserved, first) }, true
		}
	}
	return 0, nil, false
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
func (c *Context) ByNumber(k Kind, num uint32) uint32 {
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
