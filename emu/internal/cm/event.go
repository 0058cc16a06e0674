//go:build linux

package cm

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// event waits in a file's queue until it is fetched.
type event struct {
	owner *id    // the id that counts it as reported
	conn  *id    // of a CONNECT_REQUEST: the new id
	mc    *mcast // of a multicast event
	resp  eventResp
}

type waiter struct {
	r    *request
	resp uint64
}

// emit queues an event of an id; one that the program has not adopted yet stays silent, as does one whose file is full.
func (s *Server) emit(i *id, kind uint32, status int32, param []byte, x ece) {
	if i.uid != 0 {
		s.queue(i.file, newEvent(i, kind, status, param, x))
	}
}

func newEvent(i *id, kind uint32, status int32, param []byte, x ece) *event {
	ev := &event{owner: i, resp: eventResp{UID: i.uid, ID: i.num, Event: kind, Status: uint32(status), ECE: x}}
	copy(ev.resp.Param[:], param)
	return ev
}

// queue appends to the file's queue, and hands the event to a thread that waits for one.
func (s *Server) queue(fl *file, ev *event) bool {
	if fl.closed || len(fl.events) >= maxEvents {
		return false
	}
	if s.Trace != nil {
		s.Trace(Record{Name: "EVENT " + eventNames[ev.resp.Event], ID: ev.resp.ID, Status: int32(ev.resp.Status)})
	}
	fl.events = append(fl.events, ev)
	for len(fl.waiters) > 0 && len(fl.events) == 1 {
		w := fl.waiters[0]
		fl.waiters = fl.waiters[1:]
		if !w.r.c.alive() {
			continue
		}
		w.r.c.answer(w.r.len, s.deliver(w.r, w.resp))
	}
	if len(fl.events) > 0 {
		_ = fl.sig.Put([]byte{0}) // a program that has closed its end is noticed elsewhere
	}
	return true
}

// deliver writes the first event to the program and takes it off the queue; the caller sees to the signal.
func (s *Server) deliver(r *request, addr uint64) unix.Errno {
	ev := r.fl.events[0]
	if e := put(r, addr, &ev.resp, eventRespMin); e != 0 {
		return e
	}
	r.fl.events[0] = nil
	r.fl.events = r.fl.events[1:]
	ev.owner.reported++
	if ev.mc != nil {
		ev.mc.reported++
	}
	if ev.conn != nil {
		ev.owner.backlog++
		ev.conn.hidden = false
	}
	return 0
}

func (s *Server) getEvent(r *request, cmd *getEvent) unix.Errno {
	switch {
	case len(r.fl.events) > 0:
		e := s.deliver(r, cmd.Response)
		if e == 0 {
			r.fl.sig.Take(1)
		}
		return e
	case r.c.nonblock():
		return unix.EAGAIN
	}
	r.fl.waiters = append(r.fl.waiters, waiter{r, cmd.Response})
	if !s.watching {
		s.watching = true
		go s.watch()
	}
	return pending
}

// restart is ERESTARTSYS: the kernel decides what it means, by the way the program handles the signal.
const restart = unix.Errno(512)

// watch looks after the threads that wait. A signal must interrupt them, which the kernel leaves to us while it holds
// their call. Dead ones are forgotten.
func (s *Server) watch() {
	for range time.Tick(watchTime) {
		s.f.Lock()
		left := 0
		for _, fl := range s.files {
			fl.waiters = slices.DeleteFunc(fl.waiters, func(w waiter) bool {
				switch c := w.r.c; {
				case !c.alive():
				case c.signaled():
					c.answer(0, restart)
				default:
					left++
					return false
				}
				return true
			})
		}
		s.watching = left > 0
		s.f.Unlock()
		if left == 0 {
			return
		}
	}
}

// extract removes the events that match from the queue, with their signal, and returns them.
func (fl *file) extract(match func(*event) bool) (out []*event) {
	fl.events = slices.DeleteFunc(fl.events, func(ev *event) bool {
		is := match(ev)
		if is {
			out = append(out, ev)
		}
		return is
	})
	if len(out) > 0 {
		fl.sig.Take(len(out))
	}
	return out
}

// drop forgets the undelivered events that match.
func (s *Server) drop(fl *file, match func(*event) bool) {
	for _, ev := range fl.extract(match) {
		if ev.conn != nil {
			s.destroy(ev.conn)
		}
	}
}

func (s *Server) writeEvent(r *request, i *id, cmd *writeEvent) unix.Errno {
	if cmd.Event != evUser && cmd.Event != evInternal {
		return unix.EINVAL
	}
	if !s.queue(i.file, newEvent(i, cmd.Event, int32(cmd.Status), cmd.Param[:8], ece{})) {
		return unix.ENOMEM
	}
	return 0
}

// migrateID moves an id, named by its present file, with its undelivered events to the file that is written to. As with
// Linux from 5.10 on, the new ids of CONNECT_REQUESTs stay, so the program cannot use them; but they move like others
// if it tries their numbers.
func (s *Server) migrateID(r *request, cmd *migrateID) unix.Errno {
	name := r.c.file(int(int32(cmd.FD)))
	if name == "" {
		return unix.ENOENT
	}
	old := s.files[name]
	if old == nil {
		return unix.EINVAL
	}
	i, e := s.any(old, cmd.ID)
	if e != 0 {
		return e
	}
	reported := i.reported
	if old != r.fl {
		evs := old.extract(func(ev *event) bool { return ev.owner == i })
		i.moveTo(r.fl)
		for _, ev := range evs {
			s.queue(r.fl, ev)
		}
	}
	if r.c.Write(cmd.Response, uapi.Bytes(&reported)) != nil {
		return unix.EFAULT
	}
	return 0
}
