package ucma

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

func (c *CM) newID(ch *channel, ps, typ uint32) *id {
	i := &id{handle: c.handle(), ps: ps, typ: typ, state: state{ch: ch}}
	c.ids.put(i.handle, i)
	return i
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
	err = ch.file.Once(func(w usercm.Writer) (err error) {
		q := abi.UCMCreateID{UID: uint64(i.handle), PS: uint16(ps), QPType: uint8(typ)}
		i.number, err = number(w, usercm.CmdCreateID, &q, &q.Response)
		return err
	})
	if err != nil {
		c.ids.drop(i.handle)
		return nil, err
	}
	return i, nil
}

// DestroyID is rdma_destroy_id: it waits until the events of the ID that were read are acknowledged.
func (c *CM) DestroyID(h control.Handle) error {
	reported := uint32(0)
	err := c.once(h, func(w usercm.Writer, i *id) (err error) {
		reported, err = destroy(w, usercm.CmdDestroyID, i.number)
		return err
	})
	// The file has no ID of that number, as after a reply that could not be believed. An ID ends with its file.
	if err != nil && err != error(syscall.ENOENT) && err != error(syscall.EINVAL) {
		return err
	}
	i, err := c.ids.get(h)
	if err != nil {
		return err
	}
	c.acks.settle(&i.events, reported, &i.now().ch.reading)
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
	from, reported := i.now().ch, uint32(0)
	err = ch.file.Once(func(w usercm.Writer) (err error) {
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
	c.acks.settle(&i.events, reported, &from.reading)
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
	return c.once(h, func(w usercm.Writer, i *id) error {
		q := abi.UCMSetOption{ID: i.number, Level: uint32(level), Optname: uint32(name), Optlen: uint32(len(value))}
		return usercm.Give(w, usercm.CmdSetOption, &q, &q.Optval, value)
	})
}

// WriteCMEvent is rdma_write_cm_event.
func (c *CM) WriteCMEvent(h control.Handle, event uint32, status int32, arg uint64) error {
	if event != abi.RDMA_CM_EVENT_USER {
		return syscall.EINVAL
	}
	return c.with(h, func(w usercm.Writer, i *id) error {
		q := abi.UCMWriteCMEvent{ID: i.number, Event: event, Status: status}
		usercm.SetArg(&q, arg)
		return usercm.Tell(w, usercm.CmdWriteCMEvent, &q)
	})
}
