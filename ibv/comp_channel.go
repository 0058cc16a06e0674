package ibv

import (
	"errors"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/pollfd"
)

// CompChannel carries the completion events of any number of CQs.
//
// It belongs to its Device and is safe for concurrent use. One goroutine, which sleeps on Go's
// netpoller and holds no thread, reads the events, acknowledges each at once and wakes the
// waiters of that CQ. Close fails while CQs use it.
//
// C: struct ibv_comp_channel.
type CompChannel struct {
	node
	dev    *Device
	handle uintptr
	poll   *pollfd.FD
	stop   chan struct{} // closed when the reader has returned
	err    error         // why it returned, if not because of Close; set before stop is closed

	mu   sync.Mutex
	next uintptr
	cqs  map[uintptr]*CQ // by cookie, the cq_context that C hands back
}

// CreateCompChannel makes a completion channel. CQs created without one share a channel that
// the Device makes, so this is only for programs that want several.
//
// C: ibv_create_comp_channel(3).
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	if err := d.enter("create comp channel"); err != nil {
		return nil, err
	}
	defer d.leave()
	return d.newCompChannel(&d.node)
}

func (d *Device) newCompChannel(parents ...*node) (*CompChannel, error) {
	h, err := d.v.CreateCompChannel(d.handle)
	if err != nil {
		return nil, &OpError{Op: "create comp channel", Object: d.Name(), Err: err}
	}
	p, err := pollfd.New(libibverbs.CompChannelFD(h), "ibv_comp_channel")
	if err != nil {
		return nil, &OpError{Op: "create comp channel", Object: d.Name(),
			Err: errors.Join(err, d.v.DestroyCompChannel(h))}
	}
	ch := &CompChannel{dev: d, handle: h, poll: p, stop: make(chan struct{}), cqs: make(map[uintptr]*CQ)}
	ch.node.initNumbered("comp channel", d.Name(), parents...)
	life.Watch(ch, &ch.life)
	go ch.read()
	return ch, nil
}

// read runs until the poll descriptor is closed.
func (ch *CompChannel) read() {
	defer close(ch.stop)
	_ = ch.poll.Wait(func() bool {
		for {
			cq, cookie, err := ch.dev.v.GetCQEvent(ch.handle)
			if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
				return false // drained
			}
			if err != nil {
				// The device was removed: channelError wakes the waiters.
				ch.err = ch.dev.channelError(err)
				return true
			}
			ch.mu.Lock()
			obj := ch.cqs[cookie]
			ch.mu.Unlock()
			if obj != nil {
				obj.event()
			}
			// Destroying a CQ blocks until its events are acknowledged.
			ch.dev.v.AckCQEvents(cq, 1)
		}
	})
}

func (ch *CompChannel) add(cq *CQ) (cookie uintptr) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.next++
	ch.cqs[ch.next] = cq
	return ch.next
}

func (ch *CompChannel) remove(cookie uintptr) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.cqs, cookie)
}

// Close closes the channel; it fails with a *BusyError while CQs use it.
//
// C: ibv_destroy_comp_channel(3).
func (ch *CompChannel) Close() error {
	return ch.node.close(func() error {
		ch.poll.Close()
		<-ch.stop
		return ch.dev.v.DestroyCompChannel(ch.handle)
	})
}
