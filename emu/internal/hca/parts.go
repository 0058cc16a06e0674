//go:build linux

package hca

// parts is what a fabric, a device or a context has of each kind of object: its numbers or pages, and how many there
// are. The owner knows no kinds.
type parts struct{ list []any }

// A part is the place of one kind in them, which the kind's file declares with newPart. For an owner that has none yet
// it makes the zero value.
type part[T any] struct{ index int }

var places int // that newPart has given out

func newPart[T any]() part[T] {
	places++
	return part[T]{places - 1}
}

func (p part[T]) of(o *parts) *T {
	if p.index < len(o.list) {
		if v, ok := o.list[p.index].(*T); ok {
			return v
		}
	}
	for len(o.list) < places {
		o.list = append(o.list, nil)
	}
	v := new(T)
	o.list[p.index] = v
	return v
}

// drop ends what parts hold beyond their objects.
func (o *parts) drop() {
	for _, v := range o.list {
		if v, ok := v.(interface{ drop() }); ok {
			v.drop()
		}
	}
}
