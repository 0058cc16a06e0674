package rdma

import (
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/lease"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// leasing is the additional state of a connection with leases. link.Mu guards it.
type leasing struct {
	link.Control
	l   *link.Link
	opt LeaseOptions

	lends   lendings
	borrows borrowings

	// Operations on the peer's memory.
	depth int // most reads and atomics under way
}

// lendings has the memory that this side lends. link.Mu guards it, except for the last two fields.
type lendings struct {
	ledger lease.Ledger
	open   map[*Lease]struct{} // leases that have not ended
	known  map[uint32]*Lease   // of them, those that the peer knows of
	next   uint32              // number of the next one
	gone   sync.WaitGroup      // of leases
	desk   lease.Desk[*LeaseRequest]

	accessMu sync.Mutex      // held while the QP's access changes; taken before link.Mu
	access   ibv.AccessFlags // of the QP; with accessMu
}

// borrowings has the memory that this side borrows. link.Mu guards it.
type borrowings struct {
	regions map[uint32]*Region
	next    uint32        // number of the next one
	offered []*Region     // that are not borrowed yet
	wake    chan struct{} // for Borrow
	asks    lease.Asks[*asking]
	places  turn.Turn // one for each request without a reply
}

func newLeasing(o *LeaseOptions) *leasing {
	opt := o.withDefaults()
	m := &leasing{
		opt: opt,
		lends: lendings{ledger: lease.NewLedger(opt.MaxBytes, opt.MaxLeases), open: make(map[*Lease]struct{}),
			known: make(map[uint32]*Lease)},
		borrows: borrowings{regions: make(map[uint32]*Region), wake: make(chan struct{}, 1)},
	}
	m.Control = link.NewControl(m)
	m.borrows.places.Init(lease.RequestsMost)
	return m
}

// leasesOf returns the leasing of a connection where both ends allow it.
func leasesOf(l *link.Link) (*leasing, error) {
	if l.Control == nil {
		have := "a side without"
		if l.Peer.Flags&wire.HelloLeases == 0 {
			have = "a peer without"
		}
		return nil, &ibv.UnsupportedError{Feature: "remote memory on this connection",
			Need: "Options.Leases at both ends", Have: have}
	}
	return leasingOf(l), nil
}

// leasingOf returns the leasing of a connection that has one.
func leasingOf(l *link.Link) *leasing { return l.Control.Tenant.(*leasing) }
