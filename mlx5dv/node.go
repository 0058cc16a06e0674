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
}

// begin enters a device; fail or done ends the call.
func begin(dev *ibv.Device, op string) (*call, error) {
	lib, h, leave, err := enter(dev, op)
	if err != nil {
		return nil, err
	}
	c := &call{op: op, object: dev.Name(), dev: dev, lib: lib, handle: h, leaves: []func(){leave}}
	ref, _ := verbs.Ref(dev)
	c.parents = append(c.parents, ref.Object)
	return c, nil
}

// beginOn enters an object of this package.
func beginOn(n *node, op string) (*call, error) {
	if err := n.enter(op); err != nil {
		return nil, err
	}
	return &call{op: op, object: n.name, dev: n.dev, lib: n.lib, leaves: []func(){n.leave},
		parents: []*life.Object{&n.life}}, nil
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

func (c *call) done() {
	for _, leave := range c.leaves {
		leave()
	}
}

// fail ends the call with an error.
func (c *call) fail(err error) error {
	c.done()
	return opError(c.op, c.object, err)
}

// end ends a call that made nothing, with an error or without.
func (c *call) end(err error) error {
	if err != nil {
		return c.fail(err)
	}
	c.done()
	return nil
}

// made is the end of a call that made an object: it becomes a child of all that the call has entered. obj is the object
// that embeds n.
func made[T any](c *call, obj *T, n *node, kind string, handle uintptr) *T {
	*n = node{kind: kind, name: life.Number(kind, c.dev.Name()), dev: c.dev, lib: c.lib, handle: handle}
	n.life.Init(kind, n.name, c.parents...)
	life.Watch(obj, &n.life)
	c.done()
	return obj
}

// created is made unless there is an error.
func created[T any](c *call, obj *T, n *node, kind string, handle uintptr, err error) (*T, error) {
	if err != nil {
		return nil, c.fail(err)
	}
	return made(c, obj, n, kind, handle), nil
}

// onObject calls do with an object of verbs, while it is open. Errors name object.
func onObject(op, object string, ref life.Ref, dev *ibv.Device, do func(c *call, h uintptr) error) error {
	c, err := begin(dev, op)
	if err != nil {
		return err
	}
	c.object = object
	h, err := c.useVerbs(ref, dev)
	if err == nil {
		err = do(c, h)
	}
	return c.end(err)
}
