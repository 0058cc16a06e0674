package ibv

// lentContext wraps a device that librdmacm opened and will close.
func (v *verbs) lentContext(h uintptr) (*Device, error) {
	d, err := v.wrapContext(h)
	if err != nil {
		return nil, err
	}
	d.lent = true
	d.life.Disown() // rdmacm closes it
	return d, nil
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
