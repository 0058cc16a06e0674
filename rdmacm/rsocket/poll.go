package rsocket

import (
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// Item is a socket to wait for.
type Item struct {
	Socket *Socket
	Events Events // to wait for
	Ready  Events // found
}

// Poll waits, in C, until one of the items is ready or time is up, and returns how
// many are. A timeout below 0 is none. Nothing else ends it, and sockets that it
// waits for cannot be closed meanwhile: a Poller has neither limit. The error is
// ErrClosed if a socket is closed; its item is Invalid then.
//
// C: rpoll.
func Poll(items []Item, timeout time.Duration) (int, error) {
	l, err := library()
	if err != nil {
		return 0, err
	}
	fds := make([]pollfd, len(items))
	for i := range items {
		s := items[i].Socket
		items[i].Ready = 0
		if err := s.begin(); err != nil {
			items[i].Ready = Invalid
			return 0, err
		}
		defer s.use.RUnlock()
		fds[i] = pollfd{fd: int32(s.fd), events: items[i].Events}
	}
	n, err := l.poll(fds, millis(timeout))
	if err != nil {
		return 0, err
	}
	for i := range items {
		items[i].Ready = fds[i].revents
	}
	return n, nil
}

// millis rounds up.
func millis(d time.Duration) int {
	if d < 0 {
		return -1
	}
	return int(min((d+time.Millisecond-1)/time.Millisecond, 1<<31-1))
}

// Select is Poll in the manner of select: it leaves in each list what is ready. It
// takes descriptors below 1024 only, so Poll is better.
//
// C: rselect.
func Select(read, write, except []*Socket, timeout time.Duration) (r, w, e []*Socket, err error) {
	l, err := library()
	if err != nil {
		return nil, nil, nil, err
	}
	var (
		lists = [3][]*Socket{read, write, except}
		sets  = new([3]fdSet)
		top   int
	)
	for i, list := range lists {
		for _, s := range list {
			if err := s.begin(); err != nil {
				return nil, nil, nil, err
			}
			defer s.use.RUnlock()
			if s.fd >= fdSetSize {
				return nil, nil, nil, &ibv.ArgError{Arg: "socket", Got: fmt.Sprintf("descriptor %d", s.fd), Want: "one below 1024, or Poll"}
			}
			sets[i].set(s.fd)
			top = max(top, s.fd+1)
		}
	}
	var tv *[2]int64
	if timeout >= 0 {
		tv = &[2]int64{int64(timeout / time.Second), int64(timeout % time.Second / time.Microsecond)}
	}
	if _, err := l.sel(top, sets, tv); err != nil {
		return nil, nil, nil, err
	}
	var out [3][]*Socket
	for i, list := range lists {
		for _, s := range list {
			if sets[i].has(s.fd) {
				out[i] = append(out[i], s)
			}
		}
	}
	return out[0], out[1], out[2], nil
}
