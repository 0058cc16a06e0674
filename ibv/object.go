package ibv

// object is a C object of a device.
type object struct {
	node
	dev    *Device
	handle uintptr
}

func (o *object) cObject() (uintptr, *Device) { return o.handle, o.dev }

// destroy is close by a verb that takes the context and the object.
func (o *object) destroy(by func(ctx, obj uintptr) error) error {
	return o.close(func() error { return by(o.dev.handle, o.handle) })
}
