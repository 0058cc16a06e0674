package ibv

import "github.com/pureverbs/pureverbs/internal/life"

// node is the lifetime of a C object, with the errors of this package. A method that uses the C
// object calls enter before the use and leave after it.
type node struct {
	life life.Object
	kind string // "pd", "qp", …
	name string // "rxe0/3"; of a device "rxe0"
}

// init makes n an open child of parents.
//
// Preconditions: the caller holds each parent entered.
func (n *node) init(kind, name string, parents ...*node) {
	n.kind, n.name = kind, name
	lives := make([]*life.Object, len(parents))
	for i, p := range parents {
		lives[i] = &p.life
	}
	n.life.Init(kind, name, lives...)
}

// initNumbered is init for an object without its own number.
func (n *node) initNumbered(kind, device string, parents ...*node) {
	n.init(kind, life.Number(kind, device), parents...)
}

// enter keeps the object open until leave, or reports that it is closed.
func (n *node) enter(op string) error {
	if !n.life.Enter() {
		return n.errClosed(op)
	}
	return nil
}

func (n *node) leave() { n.life.Leave() }

func (n *node) errClosed(op string) error { return &OpError{Op: op, Object: n.name, Err: ErrClosed} }

// enterAll enters all nodes, or none if one is closed.
func enterAll(op string, nodes ...*node) error {
	for i, n := range nodes {
		if err := n.enter(op); err != nil {
			leaveAll(nodes[:i]...)
			return err
		}
	}
	return nil
}

// opError returns the error of an operation on an object, and nil for none.
func opError(op, object string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Object: object, Err: err}
}

// within calls f, whose error is of an operation on object, while the nodes are open.
func within(op, object string, f func() error, nodes ...*node) error {
	if err := enterAll(op, nodes...); err != nil {
		return err
	}
	defer leaveAll(nodes...) // f may panic
	return opError(op, object, f())
}

// do calls f, which is an operation on the node, while it is open.
func (n *node) do(op string, f func() error) error { return within(op, n.name, f, n) }

// value is do for an f that returns a value.
func value[T any](n *node, op string, f func() (T, error)) (v T, err error) {
	err = n.do(op, func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

// create finishes obj, whose node is n, after make has made C's object while the parents were open.
func create[T any](op, device, kind string, obj *T, n *node, make func() error, parents ...*node) (*T, error) {
	return createAs(op, device, device, kind, obj, n, make, parents...)
}

// createAs is create where errors name another object than the device.
func createAs[T any](op, object, device, kind string, obj *T, n *node, make func() error,
	parents ...*node) (*T, error) {
	err := within(op, object, func() error {
		err := make()
		if err == nil {
			n.initNumbered(kind, device, parents...)
			life.Watch(obj, &n.life)
		}
		return err
	}, parents...)
	if err != nil {
		return nil, err
	}
	return obj, nil
}

func leaveAll(nodes ...*node) {
	for _, n := range nodes {
		n.leave()
	}
}

// close runs destroy once, when no child is left and no call is inside. If destroy fails, the
// object stays open. After it, close runs free, if any; the object is closed even if that
// fails.
func (n *node) close(destroy func() error, free ...func() error) error {
	closed, err := n.life.Close(destroy)
	if b, ok := err.(*life.BusyError); ok {
		return n.busy(b.Children)
	}
	if err != nil {
		return &OpError{Op: "close " + n.kind, Object: n.name, Err: err}
	}
	if !closed {
		return nil
	}
	for _, f := range free {
		if err := f(); err != nil {
			return &OpError{Op: "free " + n.kind, Object: n.name, Err: err}
		}
	}
	return nil
}

func (n *node) busy(children []string) error {
	return &BusyError{Object: n.String(), Children: children}
}

// String returns the kind and the name, as in "cq of mlx5_0/3".
func (n *node) String() string { return n.kind + " of " + n.name }
