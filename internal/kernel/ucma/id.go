package ucma

import (
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// id is a struct rdma_cm_id.
type id struct {
	handle control.Handle
	number uint32 // the kernel's
	ps     uint32
	typ    uint32 // of the queue pair
	events events

	mu sync.Mutex // held for access to the rest, not during commands
	ch *channel
	route
	qp     pair
	limits limits
	local  usercm.ECE
	remote usercm.ECE
	failed bool // the queue pair could not be brought up: what follows of the connection is no news
	groups []*group
	own    control.Handle // the channel that only this ID has, of CreateEP

	resolving bool // ResolveAddrInfo was called, and QueryAddrInfo was not
	resolved  []control.AddrInfo
}

// route has the results of the queries: struct rdma_route, and the device.
type route struct {
	dev        *device
	src, dst   sockaddr.Addr
	sgid, dgid abi.GID
	port       uint8
	pkey       uint16
	paths      []abi.SAPathRec
}

// pair is the queue pair of an ID; no handle: none.
type pair struct {
	handle control.Handle
	number uint32
	srq    uint8
}

// limits are the reads and atomics of a connection.
type limits struct{ responder, initiator uint8 }

// none is no number: the value of a response until the kernel has stored one.
const none = ^uint32(0)

func (c *CM) newID(ch *channel, ps, typ uint32) *id {
	i := &id{handle: c.handle(), ps: ps, typ: typ, ch: ch}
	c.ids.put(i.handle, i)
	return i
}

func (i *id) channel() *channel {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ch
}

func (i *id) pair() pair {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.qp
}

func (i *id) device() *device {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.dev
}

// with calls f with the ID, to write its commands.
func (c *CM) with(h control.Handle, f func(w usercm.Writer, i *id) error) error {
	i, err := c.ids.get(h)
	if err != nil {
		return err
	}
	return i.channel().file.Do(func(w usercm.Writer) error { return f(w, i) })
}

// CreateID is rdma_create_id.
func (c *CM) CreateID(h control.Handle, ps uint32) (control.Handle, error) {
	typ := uint32(abi.IBV_QPT_RC)
	if ps == abi.RDMA_PS_UDP || ps == abi.RDMA_PS_IPOIB {
		typ = abi.IBV_QPT_UD
	}
	i, err := c.create(h, ps, typ)
	if err != nil {
		return 0, err
	}
	return i.handle, nil
}

func (c *CM) create(h control.Handle, ps, typ uint32) (*id, error) {
	ch, err := c.channels.get(h)
	if err != nil {
		return nil, err
	}
	i := c.newID(ch, ps, typ)
	err = ch.file.Do(func(w usercm.Writer) (err error) {
		q := usercm.CreateID{UID: uint64(i.handle), PS: uint16(ps), QPType: uint8(typ)}
		i.number, err = number(w, usercm.CmdCreateID, &q, &q.Response)
		return err
	})
	if err != nil {
		c.ids.drop(i.handle)
		return nil, err
	}
	return i, nil
}

// number writes a command that makes an object, and returns the kernel's number of it.
func number[Q any](w usercm.Writer, cmd usercm.Command, q *Q, at *uint64) (uint32, error) {
	n := none
	err := usercm.Ask(w, cmd, q, at, &n)
	if err == nil && n == none {
		err = &usercm.ReplyError{Command: cmd, What: "the ID", Got: "missing", Want: "a number"}
	}
	return n, err
}

// destroy writes a command that ends an object, and returns how many of its events the kernel has reported.
func destroy(w usercm.Writer, cmd usercm.Command, number uint32) (reported uint32, err error) {
	q := usercm.Query{ID: number}
	err = usercm.Ask(w, cmd, &q, &q.Response, &reported)
	return reported, err
}

// DestroyID is rdma_destroy_id: it waits until the events of the ID that were read are acknowledged.
func (c *CM) DestroyID(h control.Handle) error {
	reported := uint32(0)
	err := c.with(h, func(w usercm.Writer, i *id) (err error) {
		reported, err = destroy(w, usercm.CmdDestroyID, i.number)
		return err
	})
	if err != nil {
		return err
	}
	i, err := c.ids.get(h)
	if err != nil {
		return err
	}
	c.settle(&i.events, reported, i.channel())
	c.forget(i)
	return nil
}

// forget drops an ID that the kernel does not have any more, with its groups.
func (c *CM) forget(i *id) {
	c.ids.drop(i.handle)
	i.mu.Lock()
	dev, groups, own := i.dev, i.groups, i.own
	i.dev, i.groups, i.own = nil, nil, 0
	i.mu.Unlock()
	c.DestroyEventChannel(own)
	for _, g := range groups {
		c.groups.drop(g.handle)
	}
	c.devices.put(dev)
}

// MigrateID is rdma_migrate_id. The ID's present file may be one that refuses the thread.
func (c *CM) MigrateID(h, to control.Handle) error {
	i, err := c.ids.get(h)
	if err != nil {
		return err
	}
	ch, err := c.channels.get(to)
	if err != nil {
		return err
	}
	from, reported := i.channel(), uint32(0)
	err = ch.file.Do(func(w usercm.Writer) (err error) {
		reported, err = usercm.Migrate(w, i.number, from.file.FD())
		return err
	})
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.ch = ch
	own := i.own
	i.own = 0
	i.mu.Unlock()
	c.settle(&i.events, reported, from)
	c.DestroyEventChannel(own)
	return nil
}

// SetChannel notes that the kernel has moved an ID.
func (c *CM) SetChannel(h, to control.Handle) {
	i, err := c.ids.get(h)
	if err != nil {
		return
	}
	if ch, err := c.channels.get(to); err == nil {
		i.mu.Lock()
		i.ch = ch
		i.mu.Unlock()
	}
}

// SetOption is rdma_set_option.
func (c *CM) SetOption(h control.Handle, level, name int, value []byte) error {
	return c.with(h, func(w usercm.Writer, i *id) error {
		q := usercm.SetOption{ID: i.number, Level: uint32(level), Name: uint32(name), Len: uint32(len(value))}
		return usercm.Give(w, usercm.CmdSetOption, &q, &q.Value, value)
	})
}

// WriteCMEvent is rdma_write_cm_event.
func (c *CM) WriteCMEvent(h control.Handle, event uint32, status int32, arg uint64) error {
	if event != abi.RDMA_CM_EVENT_USER {
		return syscall.EINVAL
	}
	return c.with(h, func(w usercm.Writer, i *id) error {
		q := usercm.WriteCMEvent{ID: i.number, Event: event, Status: status}
		q.SetArg(arg)
		return usercm.Tell(w, usercm.CmdWriteCMEvent, &q)
	})
}
