package mlx5dv

import (
	"slices"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/life"
)

// node is the lifetime of a C object of this package.
type node struct {
	life   life.Object
	kind   string
	name   string // "mlx5_0/3"
	dev    *ibv.Device
	lib    control.MLX5
	handle uintptr
}

// String returns the kind and the name, as in "flow matcher of mlx5_0/3".
func (n *node) String() string { return n.kind + " of " + n.name }

// Device returns the device that the object belongs to.
func (n *node) Device() *ibv.Device { return n.dev }

func (n *node) enter(op string) error {
	if !n.life.Enter() {
		return &ibv.OpError{Op: op, Object: n.name, Err: ibv.ErrClosed}
	}
	return nil
}

func (n *node) leave() { n.life.Leave() }

// close runs destroy once, when no child is left and no call is inside. If destroy fails, the object stays open.
func (n *node) close(destroy func() error) error {
	_, err := n.life.Close(destroy)
	if b, ok := err.(*life.BusyError); ok {
		return &ibv.BusyError{Object: n.String(), Children: b.Children}
	}
	if err != nil {
		return &ibv.OpError{Op: "close " + n.kind, Object: n.name, Err: err}
	}
	return nil
}

// call is a call of libmlx5 with several objects. It keeps them open, and remembers them as parents of what is made.
type call struct {
	op      string
	object  string // for errors
	dev     *ibv.Device
	lib     control.MLX5
	handle  uintptr // struct ibv_context of dev
	leaves  []func()
	parents []*life.Object
	err     error // why the call has not begun
}

// begin enters a device, for do or create. It fails if dev is not one of mlx5.
func begin(dev *ibv.Device, op string) *call {
	if dev == nil {
		return &call{err: opError(op, "", &ibv.ArgError{Arg: "dev", Got: "nil", Want: "an open device"})}
	}
	h, leave, err := verbs.Enter(dev, op)
	if err != nil {
		return &call{err: err}
	}
	lib, ok, err := supported(dev, h)
	if err == nil && !ok {
		err = &ibv.UnsupportedError{Feature: op, Need: "a device that libmlx5 drives",
			Have: dev.Name() + ", which another provider drives"}
	}
	if err != nil {
		leave()
		return &call{err: opError(op, dev.Name(), err)}
	}
	ref, _ := verbs.Ref(dev)
	return &call{op: op, object: dev.Name(), dev: dev, lib: lib, handle: h, leaves: []func(){leave},
		parents: []*life.Object{ref.Object}}
}

// begin enters an object of this package, for do or create.
func (n *node) begin(op string) *call {
	if err := n.enter(op); err != nil {
		return &call{err: err}
	}
	return &call{op: op, object: n.name, dev: n.dev, lib: n.lib, leaves: []func(){n.leave},
		parents: []*life.Object{&n.life}}
}

// use enters one more object of this package, which must be of the same device. arg is its name in an error.
func (c *call) use(n *node, arg string) error {
	if n.dev != c.dev {
		return c.foreign(arg, n.String())
	}
	if slices.Contains(c.parents, &n.life) {
		return nil
	}
	if err := n.enter(c.op); err != nil {
		return err
	}
	c.leaves, c.parents = append(c.leaves, n.leave), append(c.parents, &n.life)
	return nil
}

// useVerbs enters one more object of package ibv, verbs.Ref of it, and returns the address of its C object.
func (c *call) useVerbs(ref life.Ref, dev *ibv.Device) (uintptr, error) {
	if dev != c.dev {
		return 0, c.foreign(ref.Kind, ref.Name)
	}
	if slices.Contains(c.parents, ref.Object) {
		return ref.Handle, nil
	}
	if !ref.Object.Enter() {
		return 0, &ibv.OpError{Op: c.op, Object: ref.Name, Err: ibv.ErrClosed}
	}
	c.leaves, c.parents = append(c.leaves, ref.Object.Leave), append(c.parents, ref.Object)
	return ref.Handle, nil
}

func (c *call) foreign(arg, got string) error {
	return &ibv.ArgError{Arg: arg, Got: got + ", of another Device", Want: "an object of the same Device"}
}

// do carries out the call, and ends it.
func (c *call) do(f func() error) error {
	if c.err != nil {
		return c.err
	}
	err := f()
	for _, leave := range c.leaves {
		leave()
	}
	return opError(c.op, c.object, err)
}

// beginOn is begin for the device of a PD.
func beginOn(pd *ibv.PD, op string) *call {
	if pd == nil {
		return &call{err: opError(op, "", &ibv.ArgError{Arg: "pd", Got: "nil", Want: "an open PD"})}
	}
	return begin(pd.Device(), op)
}

// reach ends the call: a function of package ibv enters the device, or an object that keeps it open, on its own.
func (c *call) reach() (lib control.MLX5, handle uintptr, err error) {
	return c.lib, c.handle, c.do(func() error { return nil })
}

// create carries out a call that makes obj, which embeds n: f returns the address of the C object. obj becomes a child
// of all that the call has entered.
func create[T any](c *call, obj *T, n *node, kind string, f func() (uintptr, error)) (*T, error) {
	err := c.do(func() error {
		h, err := f()
		if err != nil {
			return err
		}
		*n = node{kind: kind, name: life.Number(kind, c.dev.Name()), dev: c.dev, lib: c.lib, handle: h}
		n.life.Init(kind, n.name, c.parents...)
		life.Watch(obj, &n.life)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// onObject calls do with an object of verbs, verbs.Ref of it, while it is open. A nil object is a bad arg; it should be
// what want says.
func onObject(op, arg, want string, ref life.Ref, dev *ibv.Device, do func(c *call, h uintptr) error) error {
	if dev == nil {
		return opError(op, "", &ibv.ArgError{Arg: arg, Got: "nil", Want: want})
	}
	c := begin(dev, op)
	return c.do(func() error {
		h, err := c.useVerbs(ref, dev)
		if err != nil {
			return err
		}
		return do(c, h)
	})
}

// destroy is close by a function of libmlx5 that takes the C object.
func (n *node) destroy(by func(handle uintptr) error) error {
	return n.close(func() error { return by(n.handle) })
}
