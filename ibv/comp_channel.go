package ibv

import (
	"errors"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/pollfd"
)

// CompChannel carries the completion events of any number of CQs.
//
// It belongs to its Device and is safe for concurrent use. One goroutine, which sleeps on Go's
// netpoller and holds no thread, reads the events and wakes the waiters of that CQ. Close fails while
// CQs use it.
//
// C: struct ibv_comp_channel.
type CompChannel struct {
	object
	poll   *pollfd.FD
	stop   chan struct{} // closed when the reader has returned
	err    error         // why it returned, if not because of Close; set before stop is closed
	manual *manualReader // nil: the goroutine reads

	mu   sync.Mutex
	next uintptr
	cqs  map[uintptr]*CQ // by cookie, the cq_context that C hands back

	// direct are the CQs of the direct data path, by their struct ibv_cq *, which the kernel sends. While there are no
	// others, events are read without C, and are acknowledged together when the CQ is closed: two calls of C for each
	// are much of what an endpoint costs.
	direct map[uintptr]*CQ
	byC    int     // CQs of the other engines, whose provider has to see each event
	buf    [8]byte // of the reader, as is ev
	ev     control.CQEvent
}

// CreateCompChannel makes a completion channel. CQs created without one share a channel that
// the Device makes, so this is only for programs that want several.
//
// C: ibv_create_comp_channel(3).
func (d *Device) CreateCompChannel() (*CompChannel, error) { return d.newCompChannel(&d.node) }

// newCompChannel makes a channel and the goroutine that reads it.
func (d *Device) newCompChannel(parents ...*node) (*CompChannel, error) {
	ch, err := d.makeCompChannel(parents...)
	if err == nil {
		go ch.read()
	}
	return ch, err
}

func (d *Device) makeCompChannel(parents ...*node) (*CompChannel, error) {
	ch := &CompChannel{object: object{dev: d}, stop: make(chan struct{}), cqs: make(map[uintptr]*CQ),
		direct: make(map[uintptr]*CQ)}
	return create("create comp channel", d.Name(), "comp channel", ch, &ch.node, func() (err error) {
		if ch.handle, err = d.v.CreateCompChannel(d.handle); err != nil {
			return err
		}
		fd, err := d.v.ChannelFD(ch.handle)
		if err == nil {
			ch.poll, err = pollfd.Own(fd, "ibv_comp_channel")
		}
		if err != nil {
			err = errors.Join(explainDescriptors(err), d.v.DestroyCompChannel(ch.handle))
		}
		return err
	}, parents...)
}

// read runs until the poll descriptor is closed.
func (ch *CompChannel) read() {
	defer close(ch.stop)
	_ = ch.poll.WaitFD(func(fd uintptr) bool {
		for {
			switch err := ch.readEvent(fd); {
			case err == nil, errors.Is(err, syscall.EINTR): // the netpoller would wait for further events
			case errors.Is(err, syscall.EAGAIN):
				return false // drained
			default:
				// The device was removed: channelError wakes the waiters.
				ch.err = ch.dev.channelError(err)
				return true
			}
		}
	})
}

// readEvent reads an event and notifies its CQ. Destroying a CQ blocks until its events are acknowledged.
func (ch *CompChannel) readEvent(fd uintptr) error {
	ch.mu.Lock()
	if ch.byC == 0 {
		defer ch.mu.Unlock() // held, so that no event of another engine's CQ is read here
		handle, err := pollfd.ReadEvent(fd, &ch.buf)
		if err != nil {
			return err
		}
		cq := ch.direct[uintptr(handle)]
		if cq != nil {
			cq.event()
			if !cq.acks.each {
				cq.acks.owed++
				return nil
			}
		}
		ch.dev.v.AckCQEvents(uintptr(handle), 1, &ch.ev)
		return nil
	}
	ch.mu.Unlock()
	if err := ch.dev.v.GetCQEvent(ch.handle, &ch.ev); err != nil {
		return err
	}
	ch.mu.Lock()
	cq := ch.cqs[ch.ev.Cookie]
	ch.mu.Unlock()
	if cq != nil {
		cq.event()
	}
	ch.dev.v.AckCQEvents(ch.ev.CQ, 1, &ch.ev)
	return nil
}

// acknowledge acknowledges the events of a CQ that is about to be destroyed; later ones are acknowledged one by one.
func (ch *CompChannel) acknowledge(cq *CQ) {
	ch.mu.Lock()
	n := cq.acks.owed
	cq.acks.owed, cq.acks.each = 0, true
	ch.mu.Unlock()
	if n > 0 {
		ch.dev.v.AckCQEvents(cq.handle, n, new(control.CQEvent))
	}
}

// reads reports whether this package reads the events of a CQ itself. The native control path has to know of each event
// before it destroys the CQ, and reads without C.
func (ch *CompChannel) reads(cq *CQ) bool { return cq.path == DataPathDirect && !ch.dev.v.native }

func (ch *CompChannel) add(cq *CQ) (cookie uintptr) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.next++
	ch.cqs[ch.next] = cq
	if !ch.reads(cq) {
		ch.byC++
	}
	return ch.next
}

// know takes note of the C object of a CQ, before it is armed.
func (ch *CompChannel) know(cq *CQ) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.reads(cq) {
		ch.direct[cq.handle] = cq
	}
}

func (ch *CompChannel) remove(cq *CQ) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.cqs, cq.cookie)
	if !ch.reads(cq) {
		ch.byC--
	}
	if ch.direct[cq.handle] == cq { // else another CQ has the address
		delete(ch.direct, cq.handle)
	}
}

// Close closes the channel; it fails with a *BusyError while CQs use it.
//
// C: ibv_destroy_comp_channel(3).
func (ch *CompChannel) Close() error {
	return ch.node.close(func() error {
		ch.poll.Close()
		if ch.manual != nil {
			ch.manual.finish(ch)
		}
		<-ch.stop
		return ch.dev.v.DestroyCompChannel(ch.handle)
	})
}
