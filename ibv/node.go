package ibv

import (
	"fmt"
	"runtime"
	"sort"
	"sync"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// node is the lifetime of one C object: who its parents are, how many children
// it has, and whether it is closed. Methods that use the C object bracket the
// use with enter and leave, so that Close waits for them and they never see a
// freed object.
type node struct {
	mu      sync.RWMutex
	kind    string // "pd", "qp", …
	name    string // the device, "rxe0"
	parents []*node
	closed  bool // under mu

	kidsMu sync.Mutex
	kids   map[string]int

	track *leak.Record
}

// init makes n an open child of parents.
// Preconditions: the caller holds each parent entered.
func (n *node) init(kind, name string, parents ...*node) {
	n.kind, n.name, n.parents = kind, name, parents
	n.kids = make(map[string]int)
	for _, p := range parents {
		p.kidsMu.Lock()
		p.kids[kind]++
		p.kidsMu.Unlock()
	}
	n.track = leak.Track(kind + " of " + name)
}

// enter keeps the object open until leave, or reports that it is closed.
func (n *node) enter(op string) error {
	n.mu.RLock()
	if n.closed {
		n.mu.RUnlock()
		return &OpError{Op: op, Object: n.name, Err: ErrClosed}
	}
	return nil
}

func (n *node) leave() { n.mu.RUnlock() }

// enterAll enters every node or none.
func enterAll(op string, nodes ...*node) error {
	for i, n := range nodes {
		if err := n.enter(op); err != nil {
			leaveAll(nodes[:i]...)
			return err
		}
	}
	return nil
}

func leaveAll(nodes ...*node) {
	for _, n := range nodes {
		n.leave()
	}
}

// close runs destroy once, when no child is left and nobody is inside. A
// destroy that fails leaves the object open. Then it runs free, if any: the
// object is closed whatever that answers.
func (n *node) close(destroy func() error, free ...func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	if kids := n.children(); len(kids) > 0 {
		return &BusyError{Object: n.String(), Children: kids}
	}
	if err := destroy(); err != nil {
		return &OpError{Op: "close " + n.kind, Object: n.name, Err: err}
	}
	n.closed = true
	for _, p := range n.parents {
		p.forget(n.kind)
	}
	n.track.Done()
	for _, f := range free {
		if err := f(); err != nil {
			return &OpError{Op: "free " + n.kind, Object: n.name, Err: err}
		}
	}
	return nil
}

// children lists live children as "2 mr", in order of their names.
func (n *node) children() []string {
	n.kidsMu.Lock()
	defer n.kidsMu.Unlock()
	var list []string
	for kind, count := range n.kids {
		list = append(list, fmt.Sprintf("%d %s", count, kind))
	}
	sort.Strings(list)
	return list
}

func (n *node) String() string { return n.kind + " of " + n.name }

// watch reports an object that the garbage collector finds unclosed. It never
// destroys: the order of finalisation is not the order in which C objects may
// be destroyed, and the device may still write to their memory.
func watch[T any](obj *T, n *node) {
	if leak.Enabled() {
		runtime.AddCleanup(obj, (*leak.Record).Collected, n.track)
	}
}

// move makes parent i another one.
// Preconditions: n.mu is held.
func (n *node) move(i int, to *node) {
	from := n.parents[i]
	to.kidsMu.Lock()
	to.kids[n.kind]++
	to.kidsMu.Unlock()
	from.forget(n.kind)
	n.parents[i] = to
}

func (n *node) forget(kind string) {
	n.kidsMu.Lock()
	if n.kids[kind]--; n.kids[kind] == 0 {
		delete(n.kids, kind)
	}
	n.kidsMu.Unlock()
}
