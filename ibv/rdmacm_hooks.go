package ibv

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/hook"
)

func init() {
	hook.Context = func(h uintptr) (any, error) { return lentContext(h) }
	hook.CloseContext = func(ctx any) error {
		c := ctx.(*Context)
		return c.node.close(func() error {
			if err := c.closeOwnChannel(); err != nil {
				return err
			}
			c.async.Close()
			return nil
		})
	}
	hook.CreateQP = func(pd, send, recv, opt any, create func(uintptr, *abi.QPInitAttrEx) (uintptr, error), destroy func(uintptr) error) (any, error) {
		if destroy == nil {
			destroy = pd.(*PD).ctx.v.destroyQP
		}
		return pd.(*PD).createQP(send.(*CQ), recv.(*CQ), opt.(*QPOptions), qpMaker{create, destroy})
	}
	hook.DestroyQP = func(pd any, qp uintptr) error { return pd.(*PD).ctx.v.destroyQP(qp) }
	hook.Removed = func(ctx any) { ctx.(*Context).removed.note(ErrDeviceRemoved) }
	hook.OrZero = orZero
	hook.ReadLimits = func(ctx any) (dest, init int) {
		a := &ctx.(*Context).attr
		return a.MaxQPRdAtom, a.MaxQPInitRdAtom
	}
	hook.QPAttr = func(c *abi.QPAttr) any {
		a := new(QPAttr)
		a.fromC(c)
		return a
	}
	hook.AHAttr = func(c *abi.AHAttr) any {
		var a AHAttr
		a.fromC(c)
		return a
	}
}

// lentContext wraps a device that librdmacm has opened and does not close.
func lentContext(h uintptr) (*Context, error) {
	v, err := library()
	if err != nil {
		return nil, err
	}
	dev := contextDevice(h)
	d := Device{Index: v.getDeviceIndex(dev)}
	if d.Name, err = v.getDeviceName(dev); err != nil {
		return nil, err
	}
	if d.GUID, err = v.getDeviceGUID(dev); err != nil {
		return nil, err
	}
	d.NodeType, d.Transport = deviceTypes(dev)
	c, err := v.newContext(d, h)
	if err != nil {
		return nil, err
	}
	c.lent = true
	c.node.init("device", d.Name)
	c.life.Disown() // rdmacm closes it
	return c, nil
}

// closeLent gives back what only this package made on a lent device.
func (c *Context) closeLent() error {
	if !c.life.Lock() {
		return nil
	}
	defer c.life.Unlock()
	if children := c.life.Children(); len(children) > 0 {
		return c.busy(children)
	}
	return c.closeOwnChannel()
}
