package librdmacm

import (
	"sync"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// librdmacm writes all its commands to rdma_cm's file on the thread that calls it, so its functions are called on the
// file's owner: see package usercm.

// owners has the *usercm.Owner of each channel that has one, by the channel's address.
var owners sync.Map

// channelOf returns the channel of an ID.
func channelOf(id uintptr) uintptr { return cmem.At[abi.RDMACMID](id).Channel }

func fdOf(ch uintptr) int { return int(cmem.At[abi.RDMAEventChannel](ch).FD) }

// on calls f, which writes to the file of a channel, on the file's owner.
func on(ch uintptr, f func() error) error {
	o, _ := owners.Load(ch)
	owner, _ := o.(*usercm.Owner)
	return owner.Do(fdOf(ch), f)
}

// write calls a function that returns 0, or -1 and sets errno, and writes to the file of a channel.
//
//go:uintptrescapes
func (l Lib) write(ch uintptr, name string, args ...uintptr) error {
	return on(ch, func() error { return l.lib.Minus1(name, args...) })
}

// MoveRequests moves the connection requests that nobody has read from a channel to another one, to which their
// listeners have been moved. librdmacm would fail to use their IDs. It also moves the other IDs that are left at from:
// see SetChannel.
func (l Lib) MoveRequests(from, to uintptr) {
	_ = on(to, func() error { return usercm.MoveRequests(usercm.Descriptor(fdOf(to)), fdOf(from)) })
}
