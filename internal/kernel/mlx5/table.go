package mlx5

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
)

// HandleError reports a handle that is not of an object, or of one of another kind. It matches EINVAL.
type HandleError struct{ Handle handle }

func (e *HandleError) Error() string {
	return fmt.Sprintf("no object of this kind has the handle %d", e.Handle)
}

// Unwrap returns EINVAL.
func (e *HandleError) Unwrap() error { return syscall.EINVAL }

// add puts an object into the table. An object of a context learns its handle.
func (t *table) add(o any) handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects == nil {
		t.objects = make(map[handle]any)
	}
	t.last++
	if n, ok := o.(interface{ setHandle(handle) }); ok {
		n.setHandle(t.last)
	}
	t.objects[t.last] = o
	return t.last
}

func (t *table) remove(h handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.objects, h)
}

// removeOf removes the objects of a context, and the context.
func (t *table) removeOf(ctx handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.objects, func(_ handle, o any) bool {
		n, ok := o.(owned)
		return ok && n.context().handle == ctx
	})
}

// load returns the object of a handle, nil if there is none. issued reports whether there ever was one.
func (t *table) load(h handle) (o any, issued bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.objects[h], h != 0 && h <= t.last
}

// get returns the object of a handle.
func get[T any](v *Verbs, h handle) (*T, error) {
	o, _ := v.table.load(h)
	if p, ok := o.(*T); ok {
		return p, nil
	}
	return nil, &HandleError{h}
}

// mine is get for an object of a context.
func mine[T any, P interface {
	*T
	owned
}](c *context, h handle) (*T, error) {
	o, err := get[T](c.v, h)
	if err == nil && P(o).context() != c {
		return nil, syscall.EINVAL
	}
	return o, err
}

// also adds to err an error of cleaning up, if there is one. An errno alone stays one.
func also(err, e error) error {
	switch {
	case e == nil:
		return err
	case err == nil:
		return e
	}
	return errors.Join(err, e)
}

// errnoOf returns the errno in err, and err if there is none.
func errnoOf(err error) error {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}
