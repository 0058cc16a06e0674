package mlx5

import (
	"fmt"
	"sync"
	"syscall"
)

// HandleError reports a handle that is not of an object, or of one of another kind. It matches EINVAL.
type HandleError struct{ Handle handle }

func (e *HandleError) Error() string {
	return fmt.Sprintf("no object of this kind has the handle %d", e.Handle)
}

// Unwrap returns EINVAL.
func (e *HandleError) Unwrap() error { return syscall.EINVAL }

// table finds objects by their handles, which are used once.
type table struct {
	mu      sync.RWMutex
	last    handle
	objects map[handle]any
}

// add puts an object into the table.
func (t *table) add(o any) handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objects == nil {
		t.objects = make(map[handle]any)
	}
	t.last++
	t.objects[t.last] = o
	return t.last
}

func (t *table) remove(h handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.objects, h)
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

// forget removes an object that is another process's.
func forget[T any](v *Verbs, h handle) error {
	_, err := get[T](v, h)
	if err == nil {
		v.table.remove(h)
	}
	return err
}

// field returns what f says of the object of a handle, and the zero value if there is no such object.
func field[T, R any](v *Verbs, h handle, f func(*T) R) (r R) {
	if p, err := get[T](v, h); err == nil {
		r = f(p)
	}
	return r
}
