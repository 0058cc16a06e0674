package rdmacm

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/life"
)

// ID is a connection identifier, the counterpart of a TCP socket. It is asynchronous: see
// EventChannel.Event.
//
// It belongs to the caller and is safe for concurrent use. Close waits for calls in progress, fails
// while a QP of CreateQP is open, and drops the ID's unread events.
//
// C: struct rdma_cm_id.
type ID struct {
	lib    control.CM
	handle uintptr
	ps     PortSpace
	typ    ibv.QPType // of XRC, as CreateEP made it; else 0
	order  progress
	life   life.Object
	name   string                       // "TCP/3"
	ch     atomic.Pointer[EventChannel] // its parent; changed while the ID is locked
	inC    sync.RWMutex                 // held for reading during calls: C must not see the file change
	file   *file                        // that the C object names; changed with inC and the channel's mu held
	asked  *ConnParam                   // what the peer requests, of an EventConnectRequest of a connection

	established atomic.Bool            // an old librdmacm has done what Establish does
	led         atomic.Pointer[ibv.QP] // the queue pair that the kernel moves: see cmOnly

	qpMu sync.Mutex
	qp   *ibv.QP // of CreateQP

	own struct { // created on first use
		sync.Mutex
		cookie  uintptr
		groups  map[uintptr]*membership // joined groups, by the cookie in their events
		value   any
		handler handler
		dev     *device       // set by Verbs
		solo    *EventChannel // closed with the ID
	}
}

// registry finds IDs by their address in C. It spans all channels, since an ID may move.
type registry struct{ m sync.Map }

var ids registry

func (r *registry) add(id *ID)    { r.m.Store(id.handle, id) }
func (r *registry) remove(id *ID) { r.m.Delete(id.handle) }

func (r *registry) find(h uintptr) *ID {
	v, _ := r.m.Load(h)
	id, _ := v.(*ID)
	return id
}

// on returns the IDs on a channel.
func (r *registry) on(ch *EventChannel) (list []*ID) {
	r.m.Range(func(_, v any) bool {
		if id := v.(*ID); id.Channel() == ch {
			list = append(list, id)
		}
		return true
	})
	return list
}

// newID returns an ID that owns the struct rdma_cm_id h, which names the channel's present file.
//
// Preconditions: ch is entered, and ch.mu is held.
func newID(ch *EventChannel, h uintptr, ps PortSpace) *ID {
	id := &ID{lib: ch.lib, handle: h, ps: ps, name: life.Number("id", ps.String())}
	id.ch.Store(ch)
	ch.enroll(id)
	id.life.Init("id", id.name, &ch.life)
	life.Watch(id, &id.life)
	ids.add(id)
	return id
}

// CreateID creates an ID whose events arrive on ch.
//
// C: rdma_create_id(3).
func (ch *EventChannel) CreateID(ps PortSpace) (*ID, error) {
	const op = "create cm id"
	if err := ch.enter(op); err != nil {
		return nil, err
	}
	defer ch.life.Leave()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	var h uintptr
	err := ch.write(func(file uintptr) (err error) {
		h, err = ch.lib.CreateID(file, uint32(ps))
		return err
	})
	if err != nil {
		return nil, &ibv.OpError{Op: op, Object: ps.String(), Err: verbs.ExplainCM(err)}
	}
	return newID(ch, h, ps), nil
}

// Close destroys the ID in any state. It ends a connection that is open or being set up, and notifies the peer.
//
// C: rdma_destroy_id(3).
func (id *ID) Close() error {
	if _, err := id.life.Close(id.destroy); err != nil {
		return busy(id.String(), err)
	}
	if solo := guarded(&id.own, &id.own.solo); solo != nil {
		return solo.Close() // fails again while other IDs use it
	}
	return nil
}

func (id *ID) destroy() error {
	id.own.Lock()
	groups, dev := id.own.groups, id.own.dev
	id.own.dev = nil
	id.own.Unlock()
	// From here on, events of the ID are dropped. rdma_destroy_id waits until events that were read
	// are acknowledged, which the reader does at once.
	ids.remove(id)
	for _, g := range groups {
		if a, err := newSockaddr(netip.AddrPortFrom(g.addr, 0)); err == nil {
			_, _ = id.write(func() error { return id.lib.LeaveMulticast(id.handle, &a) })
		}
	}
	// If the device was removed while objects on it are open, they use memory that rdma_destroy_id
	// would free. If the kernel refuses the channel's file for good, rdma_destroy_id frees nothing. Then the kernel
	// frees its part when the channel is closed.
	if !dev.release(id.lib) {
		_, err := id.write(func() error { return id.lib.DestroyID(id.handle) })
		if lost := (*ibv.CredentialsError)(nil); err != nil && !errors.As(err, &lost) {
			ids.add(id)
			return &ibv.OpError{Op: "close cm id", Object: id.name, Err: err}
		}
	}
	ch := id.Channel()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.leave(id.file)
	return nil
}

// write calls f, which writes to the file that the ID names, and again if the kernel refuses the file and the ID could
// be moved to another one. It returns the file.
//
// Preconditions: the ID is entered, or being closed.
func (id *ID) write(f func() error) (at *file, err error) {
	for {
		id.inC.RLock()
		at = id.file
		err = f()
		id.inC.RUnlock()
		if !errors.Is(err, control.ErrCredentials) {
			return at, err
		}
		if err = id.renew(at); err != nil {
			return at, err
		}
	}
}

// renew moves the ID away from a file that the kernel refuses.
func (id *ID) renew(from *file) error {
	ch := id.Channel()
	id.inC.Lock()
	defer id.inC.Unlock()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if err := ch.renew(from); err != nil {
		return err
	}
	return ch.move(id)
}

// call is write for an ID that stays open.
func (id *ID) call(f func() error) error {
	at, err := id.write(f)
	if at.former.Load() { // the channel could not move the ID meanwhile
		_ = id.renew(at)
	}
	return err
}

// enter keeps the ID open until leave.
func (id *ID) enter(op string) error {
	if !id.life.Enter() {
		return id.errClosed(op)
	}
	return nil
}

func (id *ID) leave() { id.life.Leave() }

// peek returns what get reads of an ID, the zero value once the ID is closed.
//
// Preconditions: the caller does not hold the ID entered, since a Migrate of another goroutine would wait for both.
func peek[T any](id *ID, get func(l control.CM, id uintptr) T) (v T) {
	if id.enter("read cm id") == nil {
		defer id.leave()
		v = get(id.lib, id.handle)
	}
	return v
}

// state returns what is known of an ID.
func (id *ID) state() *control.CMState {
	s := peek(id, control.CM.State)
	return &s
}

func (id *ID) errClosed(op string) error {
	return &ibv.OpError{Op: op, Object: id.name, Err: ErrClosed}
}

// do brackets a call.
func (id *ID) do(op string, f func() error) error {
	if err := id.enter(op); err != nil {
		return err
	}
	defer id.leave()
	at := id.order.load()
	if err := id.call(f); err != nil {
		var o *ibv.OpError
		if errors.As(err, &o) {
			o.Err = id.explain(at, op, o.Err)
			return err
		}
		return &ibv.OpError{Op: op, Object: id.name, Err: id.explain(at, op, err)}
	}
	return nil
}

// explain returns the meaning of an EINVAL of a call at a stage. There is no event for a request that was withdrawn,
// but the kernel then has no attributes for its QP.
//
// Preconditions: the ID is entered.
func (id *ID) explain(at stage, op string, err error) error {
	if err == syscall.ECONNRESET && at == stageRequested { // on iWARP, where the request is a TCP connection
		return fmt.Errorf("%w: %w", ErrWithdrawn, err)
	}
	if err == syscall.EINVAL && at == stageRequested && !id.ps.datagram() && id.lib.State(id.handle).Verbs != 0 {
		_, gone := id.lib.InitQPAttr(id.handle, &abi.QPAttr{QPState: uint32(ibv.StateRTR)})
		if gone == syscall.EINVAL {
			return fmt.Errorf("%w: %w", ErrWithdrawn, err)
		}
	}
	return at.explain(op, err)
}

// needDevice is the Need of a StateError for calls that need a device.
const needDevice = "the ID has no device: resolve an address, or bind to an address of a device"

// bound is do for calls that need a device. librdmacm crashes if the ID has none.
func (id *ID) bound(op string, f func() error) error {
	return id.do(op, func() error {
		if id.lib.State(id.handle).Verbs == 0 {
			return &StateError{Op: op, Need: needDevice}
		}
		return f()
	})
}

// String names the ID and its addresses.
func (id *ID) String() string {
	if id.enter("") != nil {
		return id.ps.String() + " cm id (closed)"
	}
	defer id.leave()
	return id.describe()
}

// Preconditions: the ID is entered.
func (id *ID) describe() string {
	s := id.ps.String() + " cm id"
	k := id.lib.State(id.handle)
	if a := k.Src.AddrPort(); a.IsValid() {
		s += " of " + a.String()
	}
	if a := k.Dst.AddrPort(); a.IsValid() && !a.Addr().IsUnspecified() {
		s += " to " + a.String()
	}
	return s
}

// PortSpace returns the ID's port space.
func (id *ID) PortSpace() PortSpace { return id.ps }

// Channel returns the channel on which the ID's events arrive.
func (id *ID) Channel() *EventChannel { return id.ch.Load() }

// SetValue attaches a value of the caller's to the ID.
//
// C: rdma_cm_id.context.
func (id *ID) SetValue(v any) {
	id.own.Lock()
	id.own.value = v
	id.own.Unlock()
}

// Value returns the value that SetValue attached.
func (id *ID) Value() any { return guarded(&id.own, &id.own.value) }

// guarded returns a value that a lock protects.
func guarded[T any](by sync.Locker, v *T) T {
	by.Lock()
	defer by.Unlock()
	return *v
}

// Migrate moves the ID and its unread events to another channel.
//
// C: rdma_migrate_id(3).
func (id *ID) Migrate(to *EventChannel) error {
	const op = "migrate cm id"
	if to == nil {
		return &ibv.OpError{Op: op, Object: id.name, Err: &ibv.ArgError{Arg: "channel", Got: "nil",
			Want: "an event channel"}}
	}
	if !id.life.Lock() {
		return id.errClosed(op)
	}
	defer id.life.Unlock()
	from := id.Channel()
	if from == to {
		return nil
	}
	if err := to.enter(op); err != nil {
		return err
	}
	defer to.life.Leave()
	// No event may be read while the C object changes its channel.
	first, second := from, to
	if second.seq < first.seq {
		first, second = second, first
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	second.mu.Lock()
	defer second.mu.Unlock()
	err := to.write(func(file uintptr) error { return id.lib.MigrateID(id.handle, file) })
	if err != nil {
		return &ibv.OpError{Op: op, Object: id.name, Err: err}
	}
	from.leave(id.file)
	to.enroll(id)
	id.life.Move(0, &to.life)
	id.ch.Store(to)
	return nil
}
