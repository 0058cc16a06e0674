package ibv

import "sync/atomic"

// lasting has what does not change while a device is there, and what each context need not ask for again.
type lasting struct {
	attr kept[DeviceAttr]
	sl   kept[uint8] // see readServiceLevels
}

// lasting returns what earlier contexts of a device have asked for. Handles of ControlNative are used once, so a device
// that comes again has another one. libibverbs uses them again, so nothing is kept.
func (v *verbs) lasting(dev uintptr) *lasting {
	if !v.native {
		return new(lasting)
	}
	k, _ := v.known.LoadOrStore(dev, new(lasting))
	return k.(*lasting)
}

// kept is a value that is read once. An error is not kept.
type kept[T any] struct{ p atomic.Pointer[T] }

func (k *kept[T]) get(read func() (*T, error)) (*T, error) {
	if v := k.p.Load(); v != nil {
		return v, nil
	}
	v, err := read()
	if err == nil {
		k.p.Store(v)
	}
	return v, err
}
