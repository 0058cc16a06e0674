package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// LeaseOptions allow remote memory on a connection, if the peer's Options also have them. The zero value selects the
// defaults.
type LeaseOptions struct {
	// MaxBytes is how many bytes may be lent to the peer at a time. 0 means 1 GiB. With None nothing may be
	// lent: this side only borrows.
	MaxBytes int64
	// MaxLeases is how many leases the peer may have at a time, at most 1024. 0 means 64.
	MaxLeases int
	// MaxDuration is the longest duration of a lease, at most 30 days. 0 means an hour.
	MaxDuration time.Duration
	// Grace is how long after the end of a lease, or after Revoke, the peer may take to return the
	// memory. After that its access is ended by force, and with it the connection, should it use it.
	// 0 means a second.
	Grace time.Duration
	// OnRequest decides about a Request of the peer: it replies with r.Lend, or refuses with an error, whose text is
	// not sent to the peer. It runs on a goroutine of its own, one call at a time for each connection, and Close does
	// not wait for it. ctx ends when OnRequest returns, or earlier if nothing can be lent any more, because either end
	// has closed the connection or it has failed. A peer that gives its Request up does not end ctx; what is lent then
	// is returned at once. nil refuses all. A panic of OnRequest ends the program.
	OnRequest func(ctx context.Context, r *LeaseRequest) (*Lease, error)
}

const (
	defaultLeaseBytes    = 1 << 30
	defaultLeases        = 64
	defaultLeaseDuration = time.Hour
	defaultGrace         = time.Second

	leasesMost   = 1024 // of an owner, at a time
	durationMost = 30 * 24 * time.Hour
)

func (o LeaseOptions) withDefaults() LeaseOptions {
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultLeaseBytes)
	o.MaxLeases = cmp.Or(o.MaxLeases, defaultLeases)
	o.MaxDuration = cmp.Or(o.MaxDuration, defaultLeaseDuration)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	return o
}

func (o *LeaseOptions) check() error {
	if o == nil {
		return nil
	}
	d := o.MaxDuration
	return errors.Join(refuse(d < 0 || d > durationMost || d%time.Millisecond != 0, "Leases.MaxDuration", d,
		fmt.Sprintf("1ms to %v in whole milliseconds, or 0 for the default", durationMost)),
		positive("Leases.MaxBytes", o.MaxBytes), upTo("Leases.MaxLeases", o.MaxLeases, leasesMost),
		notNegative("Leases.Grace", o.Grace))
}

// duration checks the duration of a lease; 0 means the longest.
func (o *LeaseOptions) duration(d time.Duration) (time.Duration, error) {
	switch {
	case d == 0:
		return o.MaxDuration, nil
	case d < time.Millisecond:
		return 0, &ibv.ArgError{Arg: "duration", Got: d.String(), Want: "1ms or more, or 0 for the longest"}
	case d > o.MaxDuration:
		return 0, &ibv.LimitError{What: "milliseconds of a lease", Asked: uint64(d.Milliseconds()),
			Limit: uint64(o.MaxDuration.Milliseconds()), Where: "LeaseOptions.MaxDuration of this end"}
	}
	return d, nil
}

// milliseconds returns a duration as it is sent to the peer.
func milliseconds(d time.Duration) uint32 { return uint32(min(d.Milliseconds(), math.MaxUint32)) }
