package ibv

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// manualReader takes the place of the goroutine of a CompChannel that has none.
type manualReader struct {
	mu  sync.Mutex // held by the reader
	try func(fd uintptr) bool
	err error // of try

	once sync.Once // closes the channel's stop
}

// CreateManualCompChannel makes a completion channel without a goroutine: the program calls ReadEvents. A goroutine
// that waits for completions can so be the one that the event wakes, where it would else be woken by the channel's.
//
// C: ibv_create_comp_channel(3).
func (d *Device) CreateManualCompChannel() (*CompChannel, error) {
	ch, err := d.makeCompChannel(&d.node)
	if err != nil {
		return nil, err
	}
	m := &manualReader{}
	m.try = func(fd uintptr) bool {
		for {
			if m.err = ch.readEvent(fd); !errors.Is(m.err, syscall.EINTR) { // for which the netpoller would wait
				return !errors.Is(m.err, syscall.EAGAIN)
			}
		}
	}
	ch.manual = m
	go func() {
		select {
		case <-d.removed.ch:
			ch.poll.Interrupt()
		case <-ch.stop:
		}
	}()
	return ch, nil
}

// ReadEvents waits for an event of one of the channel's CQs, and records it: CQ.Events grows, and goroutines that wait
// for the CQ wake up. After Interrupt, and sometimes at other times, it returns nil without an event, so always check
// the CQ.
//
// The channel is of CreateManualCompChannel. One goroutine at a time reads; for others there is a *BusyError. Close
// ends it with ErrClosed.
//
// C: ibv_get_cq_event(3) and ibv_ack_cq_events(3).
func (ch *CompChannel) ReadEvents() error {
	const op = "read events"
	fail := func(err error) error { return &OpError{Op: op, Object: ch.name, Err: err} }
	m := ch.manual
	if m == nil {
		return fail(&ArgError{Arg: "channel", Got: "one whose goroutine reads",
			Want: "one of CreateManualCompChannel"})
	}
	if !m.mu.TryLock() {
		return fail(&BusyError{Children: []string{"another goroutine in ReadEvents"}})
	}
	defer m.mu.Unlock()
	err := ch.poll.WaitFD(m.try)
	switch {
	case err == nil && m.err == nil:
		return nil
	case err == nil:
		return fail(ch.dev.channelError(m.err))
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return fail(ErrClosed)
	case ch.dev.removed.noted():
		return fail(ch.dev.removed.err)
	}
	ch.poll.Uninterrupt()
	return nil
}

// Interrupt lets ReadEvents return, or its next call if there is none now. It does nothing to channels that have a
// goroutine. It is safe for concurrent use.
func (ch *CompChannel) Interrupt() {
	if ch.manual != nil {
		ch.poll.Interrupt()
	}
}

// finish waits until no goroutine reads.

// Preconditions: ch.poll is closed.
func (m *manualReader) finish(ch *CompChannel) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.once.Do(func() { close(ch.stop) })
}
