// Package life is the lifetime of what has to be closed: who uses it, what was made
// of it, and whether it is closed.
//
// It refuses to close an object with children, waits for those who use it, and
// leaves it open when it cannot be destroyed. Nothing is closed by the garbage
// collector: it knows no order among C objects, and a device may still write to
// their memory.
package life

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// ErrClosed is ErrClosed of all packages.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "object is closed" }

// Is reports whether target is net.ErrClosed: servers ask for that.
func (closedError) Is(target error) bool { return target == net.ErrClosed }

// BusyError is returned by Close when the object has children.
type BusyError struct {
	Children []string // "2 mr", in order of the kinds
}

func (e *BusyError) Error() string { return "in use by " + strings.Join(e.Children, ", ") }

// Object is the lifetime of one object. The zero Object is open, has no parents, and
// is not looked for by package leak.
type Object struct {
	// state has the number of users, and the bits below.
	state atomic.Int64

	mu   sync.Mutex    // held by Close, and from Lock to Unlock
	idle chan struct{} // has a token when the last user has left; made before closing is set

	kind    string
	parents []*Object // under mu
	track   *leak.Record

	childMu  sync.Mutex
	children map[string]int // by kind
}

// Bits of state. An object may go back from closing; shut and closed are for good.
const (
	closing = 1 << (32 + iota) // Close or Lock keeps others out
	shut                       // Shut was called
	closed

	users = closing - 1
)

// Init makes o a child of parents, and has package leak look for it.
//
// Preconditions: o is new, and each parent is entered.
func (o *Object) Init(kind, name string, parents ...*Object) {
	o.kind, o.parents = kind, parents
	for _, p := range parents {
		p.Adopt(kind)
	}
	o.track = leak.Track(kind + " of " + name)
}

// Disown takes o out of the leak report: another one closes it.
func (o *Object) Disown() { o.track.Done() }

// Watch reports an obj that the garbage collector finds unclosed; o is its lifetime.
func Watch[T any](obj *T, o *Object) {
	if leak.Enabled() {
		runtime.AddCleanup(obj, (*leak.Record).Collected, o.track)
	}
}

// Enter keeps the object open until Leave, and reports whether it is open. It waits
// for a Close that is under way, which may fail. So whoever is inside already must
// not call it again: Close would wait for the one and the other for Close.
func (o *Object) Enter() bool {
	for !o.TryEnter() {
		if o.Closed() {
			return false
		}
		o.wait()
	}
	return true
}

// wait returns when no Close and no Lock is under way.
func (o *Object) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
}

// TryEnter is Enter, but never waits: it fails as soon as Close is under way.
func (o *Object) TryEnter() bool {
	if o.state.Load() >= closing { // or those who try again and again would keep Close waiting
		return false
	}
	if o.state.Add(1) < closing {
		return true
	}
	o.Leave()
	return false
}

// Leave ends what Enter or TryEnter began.
func (o *Object) Leave() {
	if n := o.state.Add(-1); n&closing != 0 && n&users == 0 {
		select {
		case o.idle <- struct{}{}:
		default:
		}
	}
}

// Shut keeps everybody out from now on, and reports whether no other call did so
// before. It waits for nobody; Close comes after it.
func (o *Object) Shut() bool { return o.state.Or(shut)&(shut|closed) == 0 }

// Closed reports whether the object is closed, or will be because of Shut.
func (o *Object) Closed() bool { return o.state.Load() >= shut }

// Lock waits until nobody is inside and keeps others out until Unlock. It reports
// whether the object is open; if not, it is not locked.
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

// drain keeps others out and waits for those who are inside.
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

// Close runs destroy when nobody is inside any more, and reports whether this call
// closed the object. The error is nil if the object was closed before, a *BusyError if
// it has children, and else what destroy returns. With an error the object stays open,
// or shut, and Close can be called again.
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
	if err := o.busy(); err != nil { // who was inside may have made a child
		return false, err
	}
	if err := destroy(); err != nil {
		return false, err
	}
	o.state.Or(closed)
	for _, p := range o.parents {
		p.Forget(o.kind)
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

// Adopt counts a child that is no Object.
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
	o.childMu.Lock()
	defer o.childMu.Unlock()
	if o.children[kind]--; o.children[kind] == 0 {
		delete(o.children, kind)
	}
}

// Children lists the open children as "2 mr", in order of their kinds.
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

// Move makes to parent i of o.
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

// Number names the next object of a kind: "mlx5_0/3" is the third of its kind that
// this process made on mlx5_0.
func Number(kind, device string) string {
	numbers.Lock()
	defer numbers.Unlock()
	key := kind + " of " + device
	numbers.last[key]++
	return device + "/" + strconv.FormatUint(numbers.last[key], 10)
}
