package ucma

import (
	"sync"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// channel is an event channel: an open file of rdma_cm.
type channel struct {
	file    *usercm.File
	reading int // goroutines that read or process an event; CM.acks guards it
}

// id is a struct rdma_cm_id.
type id struct {
	handle control.Handle
	number uint32 // the kernel's
	ps     uint32
	typ    uint32 // of the queue pair
	events events

	mu sync.Mutex // held for access to the rest, not during commands
	state
	groups []*group
	own    control.Handle // the channel that only this ID has, of CreateEP

	resolving bool // ResolveAddrInfo was called, and QueryAddrInfo was not
	resolved  []control.AddrInfo
}

// state has the part of an ID that commands and events change.
type state struct {
	ch *channel
	route
	qp     pair
	limits limits
	local  abi.UCMECE
	remote abi.UCMECE
	failed bool // the queue pair could not be brought up: what follows of the connection is no news
}

// route has the results of the queries: struct rdma_route, and the device.
type route struct {
	dev        *device
	src, dst   sockaddr.Addr
	sgid, dgid abi.GID
	port       uint8
	pkey       uint16
	paths      []abi.SAPathRec
}

// pair is the queue pair of an ID; no handle: none.
type pair struct {
	handle control.Handle
	number uint32
	srq    uint8
}

// group is a multicast group that an ID has joined.
type group struct {
	handle   control.Handle
	id       *id
	number   uint32 // the kernel's
	cookie   uintptr
	addr     sockaddr.Addr
	sendOnly bool
	events   events

	// What the event of the join has; id.mu guards it.
	joined bool
	mgid   abi.GID
	mlid   uint16
}

func (i *id) now() state {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state
}

// setPair gives an ID its QP; ok is false if another call was faster.
func (i *id) setPair(p pair) (ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.qp.handle != 0 {
		return false
	}
	i.qp = p
	return true
}

// group returns the group with an address that the ID has joined last, nil if there is none.
func (i *id) group(addr []byte) (last *group) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, g := range i.groups {
		if string(g.addr[:len(addr)]) == string(addr) {
			last = g
		}
	}
	return last
}

func (i *id) setDst(a sockaddr.Addr) (was sockaddr.Addr) {
	i.mu.Lock()
	defer i.mu.Unlock()
	was, i.dst = i.dst, a
	return was
}
