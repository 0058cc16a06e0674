//go:build linux

package cm

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// Info is what a kernel tells of an id by RDMA netlink.
type Info struct {
	Num      uint32
	PID      int
	Port     *hca.Port // nil for one that listens on all devices
	Listens  bool
	State    uint8 // C: enum rdma_cm_state, of the kernel's own
	PS       uint16
	QPN      uint32 // 0: not known
	Type     hca.QPType
	Src, Dst []byte // struct sockaddr_storage, nil for none
}

// Each calls do for all ids, lock held.
func (s *Server) Each(do func(*Info)) {
	storage := func(a *address) []byte {
		if a.family == 0 {
			return nil
		}
		b := make([]byte, 128)
		a.write(b)
		return b
	}
	for _, i := range s.ids.slots {
		if i == nil {
			continue
		}
		dst := storage(&i.dst)
		if i.port == nil {
			dst = nil // it stands for the ids that a kernel makes for each device, which have none
		}
		do(&Info{Num: i.num, PID: i.file.pid, Port: i.port, Listens: i.state == stListen, State: uint8(i.state),
			PS: i.ps, QPN: i.param.QPNum, Type: i.qpType, Src: storage(&i.src), Dst: dst})
	}
}
