//go:build linux

package cm

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

type command struct {
	name string
	run  func(*Server, *request) unix.Errno
}

// commands is indexed by RDMA_USER_CM_CMD_*.
var commands = [...]command{
	0:  {"CM_CREATE_ID", plain(4, (*Server).createID)},
	1:  {"CM_DESTROY_ID", plain(4, (*Server).destroyID)},
	2:  {"CM_BIND_IP", on(36, false, (*Server).bindIP)},
	3:  {"CM_RESOLVE_IP", on(56, false, (*Server).resolveIP)},
	4:  {"CM_RESOLVE_ROUTE", on(0, true, (*Server).resolveRoute)},
	5:  {"CM_QUERY_ROUTE", on(8, false, (*Server).queryRoute)},
	6:  {"CM_CONNECT", on(272, true, (*Server).connect)},
	7:  {"CM_LISTEN", on(0, false, (*Server).listen)},
	8:  {"CM_ACCEPT", on(280, true, (*Server).accept)},
	9:  {"CM_REJECT", on(0, true, (*Server).reject)},
	10: {"CM_DISCONNECT", on(0, true, (*Server).disconnect)},
	11: {"CM_INIT_QP_ATTR", on(8, true, (*Server).initQPAttr)},
	12: {"CM_GET_EVENT", plain(eventRespMin, (*Server).getEvent)},
	13: {"CM_GET_OPTION", nil},
	14: {"CM_SET_OPTION", on(8, false, (*Server).setOption)},
	15: {"CM_NOTIFY", on(0, true, (*Server).notify)},
	16: {"CM_JOIN_IP_MCAST", on(44, true, (*Server).joinIPMcast)},
	17: {"CM_LEAVE_MCAST", plain(4, (*Server).leaveMcast)},
	18: {"CM_MIGRATE_ID", plain(0, (*Server).migrateID)},
	19: {"CM_QUERY", on(8, false, (*Server).query)},
	20: {"CM_BIND", on(0, false, (*Server).bind)},
	21: {"CM_RESOLVE_ADDR", on(0, false, (*Server).resolveAddr)},
	22: {"CM_JOIN_MCAST", on(16, true, (*Server).joinMcast)},
	23: {"CM_RESOLVE_IB_SERVICE", nil},
	24: {"CM_WRITE_CM_EVENT", on(0, false, (*Server).writeEvent)},
}

// get copies a command's body as the kernel does: all of it, whatever length the header gives.
func get[T any](r *request) (v T, e unix.Errno) {
	if r.c.Read(r.addr, uapi.Bytes(&v)) != nil {
		e = unix.EFAULT
	}
	return v, e
}

// on is a command about one id, whose number is at offset at of the body; on a device, or before it has one.
func on[T any](
	at int, device bool, run func(*Server, *request, *id, *T) unix.Errno,
) func(*Server, *request) unix.Errno {
	return func(s *Server, r *request) unix.Errno {
		v, e := get[T](r)
		if e != 0 {
			return e
		}
		r.id = binary.NativeEndian.Uint32(uapi.Bytes(&v)[at:])
		i, e := s.find(r.fl, r.id)
		if e == 0 && device && i.port == nil {
			e = unix.EINVAL
		}
		if e != 0 {
			return e
		}
		return run(s, r, i, &v)
	}
}

// plain is a command about no id, or that finds it itself, with room for least bytes of answer.
func plain[T any](least int, run func(*Server, *request, *T) unix.Errno) func(*Server, *request) unix.Errno {
	return func(s *Server, r *request) unix.Errno {
		if r.out < least {
			return unix.ENOSPC
		}
		v, e := get[T](r)
		if e != 0 {
			return e
		}
		return run(s, r, &v)
	}
}

// execute runs one write() of n bytes at addr, lock held. It answers the caller, at once or later.
func (s *Server) execute(from caller, fl *file, addr, n uint64) {
	c := &spoiled{caller: from}
	if e := s.run(c, fl, addr, n); e != pending {
		c.answer(int(n), e)
	}
}

func (s *Server) run(c *spoiled, fl *file, addr, n uint64) unix.Errno {
	if n < headerSize {
		return unix.EINVAL
	}
	var h header
	if c.Read(addr, uapi.Bytes(&h)) != nil {
		return unix.EFAULT
	}
	if h.Cmd >= uint32(len(commands)) || uint64(h.In)+headerSize > n {
		return unix.EINVAL
	}
	cmd := &commands[h.Cmd]
	if cmd.run == nil {
		return unix.ENOSYS
	}
	if s.f.Watch != nil {
		e, reply := s.f.Watch.Command(nil, cmd.name)
		if c.Reply = reply; e != 0 {
			return e
		}
	}
	r := &request{c: c, fl: fl, addr: addr + headerSize, in: int(h.In), out: int(h.Out), len: int(n)}
	e := cmd.run(s, r)
	if s.Trace != nil && e != pending {
		s.Trace(Record{TID: c.tid(), Name: cmd.name, ID: r.id, Errno: e})
	}
	return e
}
