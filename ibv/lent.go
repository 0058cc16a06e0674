package ibv

import "github.com/pureverbs/pureverbs/internal/bind/libibverbs"

// lentContext wraps a device that librdmacm opened and will close.
func lentContext(h uintptr) (*Device, error) {
	v, err := library()
	if err != nil {
		return nil, err
	}
	d, err := v.describe(libibverbs.ContextDevice(h))
	if err != nil {
		return nil, err
	}
	c, err := v.newContext(d, h)
	if err != nil {
		return nil, err
	}
	c.lent = true
	c.node.init("device", d.Name)
	c.life.Disown() // rdmacm closes it
	return c, nil
}

// closeLent closes what this package itself made on a lent device.
func (d *Device) closeLent() error {
	if !d.life.Lock() {
		return nil
	}
	defer d.life.Unlock()
	if children := d.life.Children(); len(children) > 0 {
		return d.busy(children)
	}
	return d.closeOwnChannel()
}
