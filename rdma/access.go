package rdma

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/flags"
)

// Access has the operations that a lease permits to the peer.
type Access uint8

const (
	MayRead   Access = 1 << iota // Region.Read
	MayWrite                     // Region.Write
	MayAtomic                    // Region.CompareSwap and FetchAdd

	allAccess = MayRead | MayWrite | MayAtomic
)

var accessNames = []string{"MayRead", "MayWrite", "MayAtomic"}

// String returns the rights, as in "MayRead|MayWrite".
func (a Access) String() string { return flags.String(uint64(a), accessNames) }

func (a Access) check() error {
	if a == 0 || a&^allAccess != 0 {
		return &ibv.ArgError{Arg: "access", Got: a.String(), Want: "MayRead, MayWrite, MayAtomic, or several of them"}
	}
	return nil
}

// qp returns the rights of a queue pair through which the peer has those of a.
func (a Access) qp() (f ibv.AccessFlags) {
	for i, bit := range []ibv.AccessFlags{ibv.RemoteRead, ibv.RemoteWrite, ibv.RemoteAtomic} {
		if a>>i&1 != 0 {
			f |= bit
		}
	}
	return f
}

// mr returns the rights of memory that the peer has those of a to.
func (a Access) mr() ibv.AccessFlags {
	f := a.qp()
	if a&(MayWrite|MayAtomic) != 0 {
		f |= ibv.LocalWrite
	}
	return f
}
