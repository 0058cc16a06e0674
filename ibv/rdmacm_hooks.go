package ibv

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/hook"
)

func init() {
	hook.Context = func(h uintptr) (any, error) { return lentContext(h) }
	hook.CloseContext = func(ctx any) error {
		d := ctx.(*Device)
		return d.node.close(func() error {
			if err := d.closeOwnChannel(); err != nil {
				return err
			}
			d.async.close()
			return nil
		})
	}
	hook.CreateQP = func(pd, send, recv, opt any, create func(uintptr, *abi.QPInitAttrEx) (uintptr, error), destroy func(uintptr) error) (any, error) {
		if destroy == nil {
			destroy = pd.(*PD).dev.v.destroyQP
		}
		return pd.(*PD).createQP(send.(*CQ), recv.(*CQ), opt.(*QPOptions), qpMaker{create, destroy})
	}
	hook.DestroyQP = func(pd any, qp uintptr) error { return pd.(*PD).dev.v.destroyQP(qp) }
	hook.Removed = func(ctx any) { ctx.(*Device).removed.note(ErrDeviceRemoved) }
	hook.OrZero = orZero
	hook.ReadLimits = func(ctx any) (dest, init int) {
		a := &ctx.(*Device).attr
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
func lentContext(h uintptr) (*Device, error) {
	v, err := library()
	if err != nil {
		return nil, err
	}
	dev := contextDevice(h)
	d := DeviceInfo{Index: v.getDeviceIndex(dev)}
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
	c.node.track.Done() // rdmacm closes it
	return c, nil
}

// closeLent gives back what only this package made on a lent device.
func (d *Device) closeLent() error {
	d.node.mu.Lock()
	defer d.node.mu.Unlock()
	if kids := d.node.children(); len(kids) > 0 {
		return &BusyError{Object: d.node.String(), Children: kids}
	}
	return d.closeOwnChannel()
}
