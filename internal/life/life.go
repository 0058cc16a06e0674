// Package life manages the lifetime of objects that must be closed: their users, their children,
// and whether they are closed.
//
// Closing an object fails while it has children, waits for its users, and leaves the object open if
// it cannot be destroyed. The garbage collector closes nothing: it does not know the order of C
// objects, and a device may still write to their memory.
package life

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// ErrClosed is the ErrClosed of all packages of this module.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "object is closed" }

// Is reports whether target is net.ErrClosed, which servers test for.
func (closedError) Is(target error) bool { return target == net.ErrClosed }

// BusyError is returned by Close when the object has children.
type BusyError struct {
	Children []string // as in "2 mr", ordered by kind
}

func (e *BusyError) Error() string { return "in use by " + strings.Join(e.Children, ", ") }

// Object is the lifetime of one object. The zero Object is open, has no parents, and is not tracked
// by package leak.
type Object struct {
	// state holds the number of users, and the bits below.
	state atomic.Int64

	mu   sync.Mutex    // held during Close, and from Lock to Unlock
	idle chan struct{} // has a token when the last user has left; created before closing is set

	kind    string
	parents []*Object // under mu
	track   *leak.Record

	childMu  sync.Mutex
	children map[string]int // by kind
	empty    func()         // nil, or called when the last child is closed
}

// Bits of state. closing may be cleared again; shut and closed are permanent.
const (
	closing = 1 << (32 + iota) // Close or Lock excludes users
	shut                       // Shut was called
	closed

	users = closing - 1
)

// Init makes o a child of parents, and starts tracking it in package leak.
//
// Preconditions: o is new, and each parent is entered.
func (o *Object) Init(kind, name string, parents ...*Object) {
	o.kind, o.parents = kind, parents
	for _, p := range parents {
		p.Adopt(kind)
	}
	o.track = leak.Track(kind + " of " + name)
}

// Disown removes o from the leak report: another object closes it.
func (o *Object) Disown() { o.track.Done() }

// Watch makes package leak report obj if the garbage collector finds it unclosed. o is its lifetime.
func Watch[T any](obj *T, o *Object) { leak.Watch(obj, o.track) }

// Enter keeps the object open until Leave, and reports whether it is open. It waits for a Close in
// progress, which may fail. A user must therefore not call Enter again: it would wait for Close,
// and Close for the user.
func (o *Object) Enter() bool {
	for !o.TryEnter() {
		if o.Closed() {
			return false
		}
		o.wait()
	}
	return true
}

// wait returns when no Close and no Lock is in progress.
func (o *Object) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
}

// TryEnter is Enter, but never waits: it fails while a Close is in progress.
func (o *Object) TryEnter() bool {
	if o.state.Load() >= closing { // repeated attempts must not delay Close
		return false
	}
	if o.state.Add(1) < closing {
		return true
	}
	o.Leave()
	return false
}

// Leave undoes Enter or TryEnter.
func (o *Object) Leave() {
	if n := o.state.Add(-1); n&closing != 0 && n&users == 0 {
		select {
		case o.idle <- struct{}{}:
		default:
		}
	}
}

// Shut excludes users from now on, and reports whether it is the first call to do so. It does not
// wait. Call Close after it.
func (o *Object) Shut() bool { return o.state.Or(shut)&(shut|closed) == 0 }

// Closed reports whether the object is closed, or will be because of Shut.
func (o *Object) Closed() bool { return o.state.Load() >= shut }

// Lock waits until the object has no users and excludes users until Unlock. It reports whether the
// object is open; if not, it is not locked.
func (o *Object) Lock() bool {
	o.mu.Lock()
	if o.Closed() {
		o.mu.Unlock()
		return false
	}
	o.drain()
	return true
}

// Unlock ends Lock.
func (o *Object) Unlock() {
	o.reopen()
	o.mu.Unlock()
}

// drain excludes new users and waits for the others to leave.
//
// Preconditions: o.mu is held.
func (o *Object) drain() {
	if o.idle == nil {
		o.idle = make(chan struct{}, 1)
	}
	o.state.Or(closing)
	for o.state.Load()&users != 0 {
		<-o.idle
	}
}

func (o *Object) reopen() { o.state.And(^closing) }

// Close runs destroy once the object has no users, and reports whether this call closed the object.
// The error is nil if the object was already closed, a *BusyError if it has children, and otherwise
// the error of destroy. After an error the object stays open, or shut, and Close may be called
// again.
func (o *Object) Close(destroy func() error) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state.Load() >= closed {
		return false, nil
	}
	if err := o.busy(); err != nil {
		return false, err
	}
	o.drain()
	defer o.reopen()
	if err := o.busy(); err != nil { // the last users may have created a child
		return false, err
	}
	if err := destroy(); err != nil {
		return false, err
	}
	o.state.Or(closed)
	var empty []func()
	for _, p := range o.parents {
		if f := p.forget(o.kind); f != nil {
			empty = append(empty, f)
		}
	}
	for _, f := range empty {
		go f()
	}
	o.track.Done()
	return true, nil
}

func (o *Object) busy() error {
	if c := o.Children(); len(c) > 0 {
		return &BusyError{Children: c}
	}
	return nil
}

// Adopt adds a child that is not an Object.
//
// Preconditions: o is entered.
func (o *Object) Adopt(kind string) {
	o.childMu.Lock()
	defer o.childMu.Unlock()
	if o.children == nil {
		o.children = make(map[string]int)
	}
	o.children[kind]++
}

// Forget undoes Adopt.
func (o *Object) Forget(kind string) {
	if f := o.forget(kind); f != nil {
		go f()
	}
}

// forget returns what to call if this was the last child.
func (o *Object) forget(kind string) func() {
	o.childMu.Lock()
	defer o.childMu.Unlock()
	if o.children[kind]--; o.children[kind] == 0 {
		delete(o.children, kind)
	}
	if len(o.children) > 0 {
		return nil
	}
	return o.empty
}

// OnEmpty calls f, in a goroutine of its own, each time that the last child is closed from now on. No other parent of
// the child has it any more.
func (o *Object) OnEmpty(f func()) {
	o.childMu.Lock()
	defer o.childMu.Unlock()
	o.empty = f
}

// Children returns the open children, as in "2 mr", ordered by kind.
func (o *Object) Children() []string {
	o.childMu.Lock()
	defer o.childMu.Unlock()
	var list []string
	for kind, n := range o.children {
		list = append(list, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(list)
	return list
}

// Move replaces parent i of o by to.
//
// Preconditions: o is locked, and to is entered.
func (o *Object) Move(i int, to *Object) {
	to.Adopt(o.kind)
	o.parents[i].Forget(o.kind)
	o.parents[i] = to
}

var numbers = struct {
	sync.Mutex
	last map[string]uint64
}{last: make(map[string]uint64)}

// Number returns the name of the next object of a kind. "mlx5_0/3" is the third of its kind that
// this process created on mlx5_0.
func Number(kind, device string) string {
	numbers.Lock()
	defer numbers.Unlock()
	key := kind + " of " + device
	numbers.last[key]++
	return device + "/" + strconv.FormatUint(numbers.last[key], 10)
}
