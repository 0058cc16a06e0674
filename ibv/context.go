package ibv

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// Context is an open device.
//
// It belongs to the caller. All methods are safe for concurrent use. Close
// fails with a *BusyError while objects made from it are open.
//
// C: struct ibv_context.
type Context struct {
	node
	v      *verbs
	handle uintptr // struct ibv_context *
	device Device
	table  ops.Table
	attr   DeviceAttr // as it was when the device was opened; limits do not change
	legacy bool       // a library of MLNX_OFED 4.x, without SEND_WITH_INV and its like
	lent   bool       // librdmacm's, which keeps it open
	async  *asyncReader
	direct direct

	removed removal

	objMu   sync.Mutex
	objects map[uintptr]any // *QP, *CQ, *SRQ by the address of the C object

	chMu    sync.Mutex
	channel *CompChannel // for CQs that bring none, made on first use
}

func (v *verbs) openContext(d Device, dev uintptr) (*Context, error) {
	h, err := v.OpenDevice(dev)
	if err != nil {
		return nil, &OpError{Op: "open device", Object: d.Name, Err: explainOpen(d.Name, err)}
	}
	c, err := v.newContext(d, h)
	if err != nil {
		return nil, errors.Join(err, v.CloseDevice(h))
	}
	c.node.init("device", d.Name)
	watch(c, &c.node)
	return c, nil
}

func (v *verbs) newContext(d Device, h uintptr) (*Context, error) {
	c := &Context{v: v, handle: h, device: d, objects: make(map[uintptr]any), removed: removal{ch: make(chan struct{})}}
	size := libibverbs.ContextSize(h)
	if size == 0 { // every release since 2013 has the extended ops
		return nil, &OpError{Op: "open device", Object: d.Name, Err: &UnsupportedError{
			Feature: "a context with extended verbs", Need: "libibverbs of rdma-core v15 or later", Have: "an older library"}}
	}
	level.Note(size)
	attr, err := c.queryDevice()
	if err != nil {
		return nil, err
	}
	c.attr = *attr
	c.table = ops.Lookup(h)
	c.legacy = libibverbs.Legacy(h)
	// A duplicate, and two that the runtime's poller may need yet: without them it
	// ends the process.
	if err := spareDescriptors(3); err != nil {
		return nil, &OpError{Op: "open device", Object: d.Name, Err: err}
	}
	if c.async, err = newAsyncReader(libibverbs.AsyncFD(h)); err != nil {
		return nil, &OpError{Op: "open device", Object: d.Name, Err: explainDescriptors(err)}
	}
	return c, nil
}

// Name is the device's name, as in "mlx5_0".
func (c *Context) Name() string { return c.device.Name }

// GUID is the node GUID.
func (c *Context) GUID() GUID { return c.device.GUID }

// Device is what Devices says of this device.
func (c *Context) Device() Device { return c.device }

// NumCompVectors is the number of completion vectors, the bound of
// CQOptions.CompVector. It is 0 on a closed Context.
func (c *Context) NumCompVectors() int {
	if c.enter("query device") != nil {
		return 0
	}
	defer c.leave()
	return libibverbs.NumCompVectors(c.handle)
}

// Close closes the device. It fails with a *BusyError that counts what is still
// open, and does nothing the second time. Calls waiting in AsyncEvent return
// ErrClosed.
//
// The Context of a connection manager's ID is open as long as the ID is: there
// Close only tells what is open on it.
//
// C: ibv_close_device(3).
func (c *Context) Close() error {
	if c.lent {
		return c.closeLent()
	}
	return c.node.close(func() error {
		// No CQ is left, and none is being made.
		if err := c.closeOwnChannel(); err != nil {
			return err
		}
		c.async.close()
		return c.v.CloseDevice(c.handle)
	})
}

// closeOwnChannel closes the channel that CreateCQ made by itself.
func (c *Context) closeOwnChannel() error {
	c.chMu.Lock()
	defer c.chMu.Unlock()
	if c.channel == nil {
		return nil
	}
	if err := c.channel.Close(); err != nil {
		return err
	}
	c.channel = nil
	return nil
}

func (c *Context) ownChannel() (*CompChannel, error) {
	c.chMu.Lock()
	defer c.chMu.Unlock()
	if c.channel == nil {
		ch, err := c.newCompChannel()
		if err != nil {
			return nil, err
		}
		c.channel = ch
	}
	return c.channel, nil
}

func (c *Context) register(handle uintptr, obj any) {
	c.objMu.Lock()
	c.objects[handle] = obj
	c.objMu.Unlock()
}

func (c *Context) unregister(handle uintptr) {
	c.objMu.Lock()
	delete(c.objects, handle)
	c.objMu.Unlock()
}

func (c *Context) object(handle uintptr) any {
	c.objMu.Lock()
	defer c.objMu.Unlock()
	return c.objects[handle]
}

// activePort is the first active port, or 0 and the states of all.
func (c *Context) activePort() (uint8, string) {
	var states string
	for p := 1; p <= int(c.attr.PhysPortCnt); p++ {
		a, err := c.QueryPort(uint8(p))
		switch {
		case err != nil:
			states += fmt.Sprintf("port %d: %v ", p, err)
		case a.State.active():
			return uint8(p), ""
		default:
			states += fmt.Sprintf("port %d %v ", p, a.State)
		}
	}
	if states == "" {
		return 0, "no port"
	}
	return 0, states[:len(states)-1]
}
