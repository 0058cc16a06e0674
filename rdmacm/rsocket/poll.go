package rsocket

import (
	"context"
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
)

// Item is a socket to wait for.
type Item struct {
	Socket *Socket
	Events Events // the events to wait for
	Ready  Events // the events found
}

// Poll waits, in C, until an item is ready or the timeout has passed, and returns the number of
// ready items. A negative timeout is none: then nothing else ends Poll, and its sockets cannot be
// closed meanwhile. A socket may be in one item only. If a socket is closed, its item is
// PollInvalid and the error is ErrClosed. Prefer a Poller.
//
// C: rpoll.
func Poll(items []Item, timeout time.Duration) (int, error) {
	l, err := library()
	if err != nil {
		return 0, err
	}
	if timeout > 0 {
		return pollFor(items, timeout)
	}
	fds := make([]librdmacm.PollFD, len(items))
	for i := range items {
		s := items[i].Socket
		items[i].Ready = 0
		if err := s.begin(); err != nil {
			items[i].Ready = PollInvalid
			return 0, err
		}
		defer s.life.Leave()
		fds[i] = librdmacm.PollFD{FD: int32(s.fd), Events: int16(items[i].Events)}
	}
	ms := 0
	if timeout < 0 {
		ms = -1
	}
	n, err := l.Poll(fds, ms)
	if err != nil {
		return 0, err
	}
	for i := range items {
		items[i].Ready = Events(fds[i].Revents)
	}
	return n, nil
}

// pollFor polls for a limited time, with a Poller: librdmacm before v63 may hang forever in the
// rpoll after one that timed out.
func pollFor(items []Item, timeout time.Duration) (int, error) {
	p, err := NewPoller()
	if err != nil {
		return 0, err
	}
	defer p.Close()
	for i := range items {
		items[i].Ready = 0
		if err := p.Add(items[i].Socket, items[i].Events); err != nil {
			items[i].Ready = PollInvalid
			return 0, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil && ctx.Err() == nil {
		return 0, err
	}
	return Poll(items, 0)
}

// Select is Poll with the interface of select: it returns the ready sockets of each list. It
// accepts only descriptors below 1024; prefer Poll.
//
// C: rselect.
func Select(read, write, except []*Socket, timeout time.Duration) (r, w, e []*Socket, err error) {
	l, err := library()
	if err != nil {
		return nil, nil, nil, err
	}
	var (
		lists = [3][]*Socket{read, write, except}
		sets  = new([3]librdmacm.FDSet)
		top   int
	)
	for i, list := range lists {
		for _, s := range list {
			if err := s.begin(); err != nil {
				return nil, nil, nil, err
			}
			defer s.life.Leave()
			if s.fd >= librdmacm.FDSetSize {
				return nil, nil, nil, &ibv.ArgError{Arg: "socket", Got: fmt.Sprintf("descriptor %d", s.fd),
					Want: "a descriptor below 1024; use Poll instead"}
			}
			sets[i].Set(s.fd)
			top = max(top, s.fd+1)
		}
	}
	tv := &[2]int64{}
	switch {
	case timeout < 0:
		tv = nil
	case timeout > 0: // as in pollFor
		if _, err := Poll(items(lists), timeout); err != nil {
			return nil, nil, nil, err
		}
	}
	if _, err := l.Select(top, sets, tv); err != nil {
		return nil, nil, nil, err
	}
	var out [3][]*Socket
	for i, list := range lists {
		for _, s := range list {
			if sets[i].Has(s.fd) {
				out[i] = append(out[i], s)
			}
		}
	}
	return out[0], out[1], out[2], nil
}

// items returns an item for each socket in the lists to read, write and except.
func items(lists [3][]*Socket) (list []Item) {
	at := map[*Socket]int{}
	for i, events := range [3]Events{PollIn, PollOut, 0} {
		for _, s := range lists[i] {
			if _, ok := at[s]; !ok {
				at[s] = len(list)
				list = append(list, Item{Socket: s})
			}
			list[at[s]].Events |= events
		}
	}
	return list
}
