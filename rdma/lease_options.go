package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// LeaseOptions allow remote memory on a connection, if the peer's Options also have them. The zero value selects the
// defaults.
type LeaseOptions struct {
	// Most is how many bytes may be lent to the peer at a time. 0 means 1 GiB. With None nothing may be
	// lent: this side only borrows.
	Most int64
	// Count is how many leases the peer may have at a time, at most 1024. 0 means 64.
	Count int
	// Longest is the longest duration of a lease, at most 30 days. 0 means an hour.
	Longest time.Duration
	// Grace is how long after the end of a lease, or after Revoke, the peer may take to return the
	// memory. After that its access is ended by force, and with it the connection, should it use it.
	// 0 means a second.
	Grace time.Duration
	// OnRequest decides about a Request of the peer: it replies with r.Lend, or refuses with an error, whose text is
	// not sent to the peer. It runs on a goroutine of its own, one call at a time for each connection, and Close does
	// not wait for it. nil refuses all. A panic of OnRequest ends the program.
	OnRequest func(r *LeaseRequest) (*Lease, error)
}

const (
	defaultLeaseMost    = 1 << 30
	defaultLeaseCount   = 64
	defaultLeaseLongest = time.Hour
	defaultGrace        = time.Second

	leasesMost  = 1024 // of an owner, at a time
	longestMost = 30 * 24 * time.Hour
)

func (o LeaseOptions) withDefaults() LeaseOptions {
	o.Most = cmp.Or(o.Most, defaultLeaseMost)
	o.Count = cmp.Or(o.Count, defaultLeaseCount)
	o.Longest = cmp.Or(o.Longest, defaultLeaseLongest)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	return o
}

func (o *LeaseOptions) check() error {
	if o == nil {
		return nil
	}
	if o.Longest < 0 || o.Longest > longestMost || o.Longest%time.Millisecond != 0 {
		return &ibv.ArgError{Arg: "Leases.Longest", Got: o.Longest.String(),
			Want: fmt.Sprintf("1ms to %v in whole milliseconds, or 0 for the default", longestMost)}
	}
	return errors.Join(positive("Leases.Most", o.Most), upTo("Leases.Count", o.Count, leasesMost),
		notNegative("Leases.Grace", o.Grace))
}

// duration checks the duration of a lease; 0 means the longest.
func (o *LeaseOptions) duration(d time.Duration) (time.Duration, error) {
	switch {
	case d == 0:
		return o.Longest, nil
	case d < time.Millisecond:
		return 0, &ibv.ArgError{Arg: "duration", Got: d.String(), Want: "1ms or more, or 0 for the longest"}
	case d > o.Longest:
		return 0, &ibv.LimitError{What: "milliseconds of a lease", Asked: uint64(d.Milliseconds()),
			Limit: uint64(o.Longest.Milliseconds()), Where: "LeaseOptions.Longest of this end"}
	}
	return d, nil
}

// milliseconds returns a duration as it is sent to the peer.
func milliseconds(d time.Duration) uint32 { return uint32(min(d.Milliseconds(), math.MaxUint32)) }
