//go:build linux

package umad

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Requests of ioctl. C: IB_USER_MAD_*.
const (
	RegisterAgent   = 0xc01c1b01
	UnregisterAgent = 0x40041b02
	EnablePKey      = 0x00001b03
	RegisterAgent2  = 0xc0281b04
)

const (
	maxAgents  = 32
	maxPending = 1024 // datagrams of one file that wait for an answer
	headerSize = 64   // struct ib_user_mad_hdr
	oldHeader  = 56   // without P_Key index
	madSize    = 256
	leastMAD   = 36 // with the header of RMPP
	echoed     = 24 // bytes of a datagram that comes back without an answer
	userRMPP   = 1  // the flag that IB_USER_MAD_REG_FLAGS_CAP has

	classLID      = 0x01 // subnet management, by LID
	classDirected = 0x81 // and by directed route
	maxClass      = 80
	maxVersion    = 0x83
)

// Server answers for all ports. The fabric's lock guards it.
type Server struct {
	f     *hca.Fabric
	files map[string]*file // by the pipe's name
	names sync.Map         // of files, for those who ask without the lock: each write of a program's
	tids  uint32           // the last agent's part of transaction ids
}

// New returns a server for the ports of f.
func New(f *hca.Fabric) *Server { return &Server{f: f, files: map[string]*file{}} }

// file is an open device.
type file struct {
	port    *hca.Port
	out     receiver
	agents  [maxAgents]*agent
	pkey    bool // headers have an index of P_Keys
	used    bool
	closed  bool
	pending map[uint64]*time.Timer // by transaction id
}

// agent is who receives answers.
type agent struct {
	qp  uint8  // 0: subnet management; 1: all else
	tid uint32 // the high half of its transaction ids
}

// receiver is where the program reads. What does not fit is lost, as datagrams are.
type receiver interface {
	Packet(b []byte) bool
	Close() error
}

func (f *file) header() int {
	if f.pkey {
		return headerSize
	}
	return oldHeader
}

// close ends a file: answers that it waits for do not come.
func (s *Server) close(name string) {
	f := s.files[name]
	if f == nil {
		return
	}
	delete(s.files, name)
	s.names.Delete(name)
	f.closed = true
	for _, t := range f.pending {
		t.Stop()
	}
	_ = f.out.Close()
}

func (s *Server) ioctl(m uapi.Memory, f *file, request uint32, arg uint64) unix.Errno {
	switch request {
	case RegisterAgent, RegisterAgent2:
		return s.register(m, f, request == RegisterAgent2, arg)
	case UnregisterAgent:
		var b [4]byte
		if m.Read(arg, b[:]) != nil {
			return unix.EFAULT
		}
		id := binary.NativeEndian.Uint32(b[:])
		if id >= maxAgents || f.agents[id] == nil || f.port.Device.Gone {
			return unix.EINVAL
		}
		f.agents[id] = nil
		return 0
	case EnablePKey:
		if f.used {
			return unix.EINVAL
		}
		f.pkey = true
		return 0
	}
	return unix.ENOTTY
}

// register gives the file an agent, by either form of the request.
func (s *Server) register(m uapi.Memory, f *file, second bool, arg uint64) unix.Errno {
	if f.port.Device.Gone {
		return unix.EPIPE
	}
	b := make([]byte, 28)
	if second {
		b = make([]byte, 40)
	}
	if m.Read(arg, b) != nil {
		return unix.EFAULT
	}
	qpn, class, version, rmpp := uint32(b[20]), b[21], b[22], b[26]
	if second {
		qpn, class, version, rmpp = binary.NativeEndian.Uint32(b[4:]), b[8], b[9], b[36]
	}
	if qpn > 1 {
		return unix.EINVAL
	}
	if flags := binary.NativeEndian.Uint32(b[12:]); second && flags&^userRMPP != 0 {
		if m.Write(arg+12, binary.NativeEndian.AppendUint32(nil, userRMPP)) != nil {
			return unix.EFAULT
		}
		return unix.EINVAL
	}
	id := slices.Index(f.agents[:], nil)
	subnet := class == classLID || class == classDirected
	switch {
	case id < 0:
		return unix.ENOMEM
	case second && class != 0 && binary.NativeEndian.Uint32(b[32:])>>24 != 0: // OUI
		return unix.EINVAL
	case rmpp > 1, class != 0 && version >= maxVersion, class >= maxClass && !subnet,
		class != 0 && subnet != (qpn == 0):
		return unix.EINVAL
	case qpn == 0 && f.port.Config.LinkLayer != config.InfiniBand:
		return unix.EPROTONOSUPPORT // RoCE has no subnet management
	}
	if m.Write(arg, binary.NativeEndian.AppendUint32(nil, uint32(id))) != nil {
		return unix.EFAULT
	}
	if second && !f.used {
		f.pkey = true
	}
	f.used = true
	s.tids++
	f.agents[id] = &agent{qp: uint8(qpn), tid: s.tids}
	return 0
}

// write sends a datagram of n bytes with its header.
func (s *Server) write(m uapi.Memory, f *file, addr, n uint64) unix.Errno {
	head := f.header()
	if n < uint64(head+leastMAD) || n > uint64(head+madSize) { // more is a message of several datagrams
		return unix.EINVAL
	}
	b := make([]byte, head+madSize)
	if m.Read(addr, b[:n]) != nil {
		return unix.EFAULT
	}
	id := binary.NativeEndian.Uint32(b)
	if id >= maxAgents || f.agents[id] == nil || f.port.Device.Gone {
		return unix.EINVAL
	}
	a, mad := f.agents[id], b[head:]
	if mad[3]&0x80 == 0 { // what asks for an answer
		binary.BigEndian.PutUint32(mad[8:], a.tid)
	}
	tid := binary.BigEndian.Uint64(mad[8:])
	if f.pending[tid] != nil || len(f.pending) >= maxPending {
		return unix.EINVAL
	}
	lid := binary.BigEndian.Uint16(b[28:])
	if answer, from := s.agentOf(f.port, a.qp, lid, mad); answer != nil {
		r := make([]byte, head)
		binary.NativeEndian.PutUint32(r, id)
		binary.NativeEndian.PutUint32(r[16:], uint32(head+madSize))
		binary.BigEndian.PutUint32(r[20:], uint32(a.qp))
		binary.BigEndian.PutUint16(r[28:], from)
		f.out.Packet(append(r, answer...))
		return 0
	}
	timeout, tries := binary.NativeEndian.Uint32(b[8:]), binary.NativeEndian.Uint32(b[12:])
	if timeout == 0 || mad[3]&0x80 != 0 {
		return 0
	}
	back := append([]byte(nil), b[:head+echoed]...)
	binary.NativeEndian.PutUint32(back[4:], uint32(unix.ETIMEDOUT))
	wait := time.Duration(min(uint64(timeout)*(uint64(tries)+1), uint64(time.Hour/time.Millisecond))) * time.Millisecond
	f.pending[tid] = time.AfterFunc(wait, func() {
		s.f.Lock()
		defer s.f.Unlock()
		delete(f.pending, tid)
		if !f.closed && f.agents[id] == a {
			f.out.Packet(back)
		}
	})
	return 0
}
